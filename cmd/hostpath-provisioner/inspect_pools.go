package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// poolsToInspect returns the pools in the named directories, or, if there are none, those of the
// agent in this container. Its other pools are beside: they may share a filesystem. A relative name
// is relative to the working directory.
func poolsToInspect(named []string) (shown, beside []inspect.Setting, err error) {
	known, err := poolsOfAgent()
	if len(named) == 0 {
		return known, nil, err
	}
	for _, name := range named {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, nil, err
		}
		setting := inspect.Setting{Path: path}
		if i := slices.IndexFunc(known, func(s inspect.Setting) bool { return s.Path == path }); i >= 0 {
			setting = known[i]
		}
		shown = append(shown, setting)
	}
	beside = slices.DeleteFunc(known, func(s inspect.Setting) bool { return slices.Contains(shown, s) })
	return shown, beside, nil
}

// poolsOfAgent returns the pools of the agent in this container as that agent reads its settings,
// or those of PV_DIR and DATADIR if it reads none.
func poolsOfAgent() ([]inspect.Setting, error) {
	dirs, reserve, overcommit, err := agent.Pools(agentsArguments())
	if err != nil {
		if dirs, err = poolsOfEnvironment(); err != nil {
			return nil, err
		}
	}
	var all []inspect.Setting
	for _, d := range dirs {
		if !d.Shared { // another program's
			all = append(all, inspect.Setting{Name: d.Name, Path: d.Path, Reserve: reserve, Overcommit: overcommit})
		}
	}
	slices.SortFunc(all, func(a, b inspect.Setting) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b inspect.Setting) bool { return a.Path == b.Path }), nil
}

// agentsArguments returns the arguments of the first process of this container if it is this
// program, and otherwise none.
func agentsArguments() []string {
	first, err := os.Stat("/proc/1/exe")
	if err != nil {
		return nil
	}
	if self, err := os.Stat("/proc/self/exe"); err != nil || !os.SameFile(first, self) {
		return nil
	}
	line, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")[1:]
}

// poolsOfEnvironment returns the pools of PV_DIR and DATADIR. PV_DIR is one directory, or a list in
// the DaemonSet of the kubevirt CSI driver.
func poolsOfEnvironment() (dirs []agent.DataDir, err error) {
	for _, name := range []string{"PV_DIR", "DATADIR"} {
		value := os.Getenv(name)
		if strings.HasPrefix(value, "[") {
			all, err := agent.ParseDataDirs(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			dirs = append(dirs, all...)
		} else if value != "" {
			dirs = append(dirs, agent.DataDir{Path: value})
		}
	}
	if !slices.ContainsFunc(dirs, func(d agent.DataDir) bool { return !d.Shared }) {
		return nil, errors.New("which directory? Name it, or set PV_DIR or DATADIR")
	}
	return dirs, nil
}
