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
	// cacheFor is how long an answer of the API server about a token is cached. A user
	// who loses the permission keeps it for that long.
	cacheFor = time.Minute
	// cacheSize limits the memory that clients without a permission can fill.
	cacheSize = 1000
	// reviewTimeout is how long the API server may take for both reviews.
	reviewTimeout = 5 * time.Second
)

// Authorized returns a handler that requires a bearer token of a user who may get the path
// (nonResourceURLs, verb get), as Kubernetes' own components do. The client must be allowed to
// create TokenReviews and SubjectAccessReviews. A request without a valid token gets 401, one
// without the permission 403, and any request gets 503 while the API server does not respond.
//
// k8s.io/apiserver has the same two reviews, with the whole of an API server around them.
func Authorized(client kubernetes.Interface, h http.Handler) http.Handler {
	reviews := &reviewer{client: client, answers: map[[sha256.Size]byte]answer{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !given || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		status, err := reviews.status(r.Context(), token, r.URL.Path)
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Cannot ask the API server whether a client may read metrics")
			http.Error(w, "the API server does not review tokens now; try again", http.StatusServiceUnavailable)
			return
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// reviewer asks the API server about tokens, and caches its answers.
type reviewer struct {
	client kubernetes.Interface

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer // by a hash, so that no token stays in memory
}

type answer struct {
	status int
	until  time.Time
}

// status returns the HTTP status that a client with the token gets at the path.
func (r *reviewer) status(ctx context.Context, token, path string) (int, error) {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	r.mu.Lock()
	a, known := r.answers[key]
	r.mu.Unlock()
	if known && time.Now().Before(a.until) {
		return a.status, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	status, err := r.review(ctx, token, path)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) >= cacheSize {
		clear(r.answers)
	}
	r.answers[key] = answer{status, time.Now().Add(cacheFor)}
	return status, nil
}

// review asks the API server for the user of the token and for the user's permission.
func (r *reviewer) review(ctx context.Context, token, path string) (int, error) {
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx,
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
	access, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
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
