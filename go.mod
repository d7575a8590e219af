module kubevirt.io/hostpath-provisioner

go 1.26.0
