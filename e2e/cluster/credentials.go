package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// user is a client that the API server authenticates by a fixed token.
type user struct {
	file   string // name of the kubeconfig
	name   string
	groups string
}

// users are the administrator, the components with the identities of Kubernetes' own roles, and the
// kubelets of all possible nodes.
func users() []user {
	list := []user{
		{"admin", "admin", "system:masters"},
		{"kube-controller-manager", "system:kube-controller-manager", ""},
		{"kube-scheduler", "system:kube-scheduler", ""},
	}
	for _, node := range nodeNames(MaxNodes) {
		list = append(list, user{node, "system:node:" + node, "system:nodes"})
	}
	return list
}

// writeCredentials creates the key that signs service account tokens, and a token for each user,
// unless they exist.
func writeCredentials(dir string) (tokens map[string]string, err error) {
	tokens = map[string]string{}
	var file strings.Builder
	for _, u := range users() {
		secret := make([]byte, 16)
		rand.Read(secret)
		tokens[u.file] = hex.EncodeToString(secret)
		fmt.Fprintf(&file, "%s,%s,%s,%q\n", tokens[u.file], u.name, u.name, u.groups)
	}
	if err := os.WriteFile(tokenFile(dir), []byte(file.String()), 0o600); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return tokens, os.WriteFile(signingKey(dir), pem.EncodeToMemory(block), 0o600)
}

func tokenFile(dir string) string  { return filepath.Join(dir, "tokens.csv") }
func signingKey(dir string) string { return filepath.Join(dir, "service-accounts.key") }

// servingCertificate has the API server's certificate and the authority that signed it, which
// clients trust.
func servingCertificate(dir string) string { return filepath.Join(dir, "apiserver.crt") }
func servingKey(dir string) string         { return filepath.Join(dir, "apiserver.key") }

// writeServingPair creates the certificate of an API server at the address. The API server could
// make one itself, but it creates the file before it writes it, so that a kubeconfig made meanwhile
// trusts nothing.
func writeServingPair(dir, address string) error {
	// The names and the first address of the service network are those that clients in pods use.
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"}
	pair, key, err := cert.GenerateSelfSignedCertKey(address, []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(serviceIP)},
		names)
	if err != nil {
		return fmt.Errorf("certificate of the API server: %w", err)
	}
	return errors.Join(os.WriteFile(servingCertificate(dir), pair, 0o600), os.WriteFile(servingKey(dir), key, 0o600))
}

func kubeconfigPath(dir, name string) string { return filepath.Join(dir, name+".kubeconfig") }

// writeKubeconfig writes a kubeconfig for the token and the API server at url.
func writeKubeconfig(path, url, authority, token string) error {
	ca, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e"}
	config.CurrentContext = "e2e"
	return clientcmd.WriteToFile(*config, path)
}
