package csi_test

import (
	"os"
	"reflect"
	"slices"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// described has the keys of a driver's description that the storage tests of Kubernetes know, as far
// as driver.yaml uses them. The tests ignore all others without a word.
type described struct {
	StorageClass  struct{ FromFile string }
	InlineVolumes []struct{ Attributes map[string]string }
	DriverInfo    struct {
		Name                 string
		SupportedSizeRange   struct{ Min string }
		TopologyKeys         []string
		NumAllowedTopologies int
		Capabilities         map[string]bool
	}
}

// The tests of Kubernetes skip what the description does not promise, so a promise that is missing
// there, or a name that is misspelt, would only make fewer specs run.
func TestDriverFile(t *testing.T) {
	data, err := os.ReadFile("../../../e2e/conformance/driver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file described
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		t.Fatalf("a key that the tests do not know, or that is of another kind: %v", err)
	}
	if file.DriverInfo.Name != "kubevirt.io.hostpath-provisioner" || !slices.Equal(file.DriverInfo.TopologyKeys, []string{contract.TopologyNode}) {
		t.Errorf("driver %q with topology %q", file.DriverInfo.Name, file.DriverInfo.TopologyKeys)
	}
	classFits(t, "../../../"+file.StorageClass.FromFile)
	want := promised(t)
	for name, has := range file.DriverInfo.Capabilities {
		if is, known := want[name]; !known || is != has {
			t.Errorf("capability %s: the file says %v, the driver %v; known: %v", name, has, is, known)
		}
	}
	for name := range want {
		if _, there := file.DriverInfo.Capabilities[name]; !there {
			t.Errorf("capability %s is missing from the file", name)
		}
	}
}

// promised returns every capability that the tests know, and whether the driver that runs has it.
func promised(t *testing.T) map[string]bool {
	t.Helper()
	d := newDriver(t)
	plugin, err := d.GetPluginCapabilities(t.Context(), &proto.GetPluginCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	controller, err := d.ControllerGetCapabilities(t.Context(), &proto.ControllerGetCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := d.NodeGetCapabilities(t.Context(), &proto.NodeGetCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := d.NodeGetInfo(t.Context(), &proto.NodeGetInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	service := func(s proto.PluginCapability_Service_Type) bool {
		return slices.ContainsFunc(plugin.Capabilities, func(c *proto.PluginCapability) bool { return c.GetService().GetType() == s })
	}
	growth := func(e proto.PluginCapability_VolumeExpansion_Type) bool {
		return slices.ContainsFunc(plugin.Capabilities, func(c *proto.PluginCapability) bool { return c.GetVolumeExpansion().GetType() == e })
	}
	rpc := func(r proto.ControllerServiceCapability_RPC_Type) bool {
		return slices.ContainsFunc(controller.Capabilities, func(c *proto.ControllerServiceCapability) bool { return c.GetRpc().GetType() == r })
	}
	onNode := func(r proto.NodeServiceCapability_RPC_Type) bool {
		return slices.ContainsFunc(node.Capabilities, func(c *proto.NodeServiceCapability) bool { return c.GetRpc().GetType() == r })
	}
	online := growth(proto.PluginCapability_VolumeExpansion_ONLINE)
	return map[string]bool{
		// A volume is a directory of one node: its data stays, several pods of that node share it, and
		// programs in it run.
		"persistence": true, "exec": true, "multipods": true, "singleNodeVolume": true,
		"block": false, "RWX": false, "capReadOnlyMany": false, "multiplePVsSameID": false,
		// The kubelet applies it where the CSIDriver says so and the PV names a filesystem.
		"fsGroup":             true,
		"topology":            service(proto.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		"groupSnapshot":       service(proto.PluginCapability_Service_GROUP_CONTROLLER_SERVICE),
		"capacity":            rpc(proto.ControllerServiceCapability_RPC_GET_CAPACITY),
		"controllerExpansion": rpc(proto.ControllerServiceCapability_RPC_EXPAND_VOLUME),
		"pvcDataSource":       rpc(proto.ControllerServiceCapability_RPC_CLONE_VOLUME),
		"snapshotDataSource":  rpc(proto.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
		"readWriteOncePod": rpc(proto.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER) &&
			onNode(proto.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER),
		"nodeExpansion":    onNode(proto.NodeServiceCapability_RPC_EXPAND_VOLUME),
		"volumeMountGroup": onNode(proto.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP),
		"onlineExpansion":  online,
		"offlineExpansion": online || growth(proto.PluginCapability_VolumeExpansion_OFFLINE),
		"volumeLimits":     info.MaxVolumesPerNode > 0,
	}
}

// classFits checks that the class is the one of the manifests, and lets copies be made on any filesystem.
func classFits(t *testing.T, path string) {
	t.Helper()
	of := func(path string) (class storagev1.StorageClass) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, &class); err != nil {
			t.Fatal(err)
		}
		return class
	}
	got, want := of(path), of("../../../manifests/csi/storageclass.yaml")
	got.Name, want.Parameters[contract.CopyParameter] = want.Name, "allowed"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the class of the tests is %+v, and that of manifests/csi %+v", got, want)
	}
	if _, err := contract.ParametersOf(&got); err != nil {
		t.Error(err)
	}
}
