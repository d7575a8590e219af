package httpserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	// answersFor is how long an answer of the API server about a token is good:
	// whoever loses a permission keeps it that long.
	answersFor = time.Minute
	// mostAnswers bounds what strangers can make us remember.
	mostAnswers = 1000
	// askFor is how long the API server may take to answer.
	askFor = 5 * time.Second
)

// Authorized lets through to the handler whoever shows the API server's bearer
// token of a user that may get the path, as Kubernetes' own components do:
// nonResourceURLs, verb get. The client may create TokenReviews and
// SubjectAccessReviews. Others get 401 without a token that is good, 403
// without the permission, 503 while the API server does not answer.
func Authorized(client kubernetes.Interface, h http.Handler) http.Handler {
	g := &gate{client: client, answers: map[[sha256.Size]byte]answer{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !given || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		status, err := g.status(r.Context(), token, r.URL.Path)
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Cannot ask the API server who may read metrics")
			http.Error(w, "the API server does not say who may read this; try again", http.StatusServiceUnavailable)
			return
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// gate remembers what the API server said.
type gate struct {
	client kubernetes.Interface

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer // by token and path, of which nothing is kept
}

type answer struct {
	status int
	until  time.Time
}

// status is what the bearer of the token gets at the path.
func (g *gate) status(ctx context.Context, token, path string) (int, error) {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	g.mu.Lock()
	a, known := g.answers[key]
	g.mu.Unlock()
	if known && time.Now().Before(a.until) {
		return a.status, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	status, err := g.ask(ctx, token, path)
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.answers) >= mostAnswers {
		clear(g.answers)
	}
	g.answers[key] = answer{status, time.Now().Add(answersFor)}
	return status, nil
}

// ask asks the API server whose the token is, and what that user may.
func (g *gate) ask(ctx context.Context, token, path string) (int, error) {
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	access, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review access: %w", err)
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
