package main

// helpText is what --help prints around the flags.
const helpText = `hostpath-provisioner turns the claims of one node into directories.

It runs on every node. A claim comes to this node when the scheduler chose it
(a class with volumeBindingMode WaitForFirstConsumer) or when the claim says so:

    metadata:
      annotations:
        kubevirt.io/provisionOnNode: node-01

The claim then gets a directory in PV_DIR, with the mode that --directory-mode
gives, and a hostPath PV that names it. When the claim is deleted and its class
says Delete, the directory goes out of sight at once and its files soon after.

What it keeps for itself stands in PV_DIR/.hostpath-provisioner. A directory
whose disk is not mounted is left alone: nothing is created there, and nothing
is called deleted, until the disk is back.

Usage:
  hostpath-provisioner [flags]                      run the agent
  hostpath-provisioner --endpoint=unix:///csi/csi.sock --nodeid=NODE --datadir=JSON
                                                    run a plain CSI driver, sidecars beside it; with
                                                    --kubelet-registration-path all but the registrar
  hostpath-provisioner inspect [-o json] [PV_DIR]   print pool, volumes and trash

Flags, with the environment variable that sets their default in brackets:
%s
Endpoints on --http-address:
  /healthz   the process lives
  /readyz    it serves claims, or 503 and what stands in the way
  /metrics   for Prometheus; over HTTPS on --metrics-address too

Exit code: 0 after SIGTERM or SIGINT, 1 where a setting is wrong. An API server
that does not answer is waited for.
`
