// Package view prints what the commands found: tables, bars, findings, and JSON or YAML. It decides
// nothing. What comes from the cluster cannot control the terminal: unprintable characters are
// quoted.
package view
