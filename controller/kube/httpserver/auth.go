package httpserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
)

const (
	// cacheFor is how long an answer of the API server about a token is cached. A user
	// who loses the permission keeps it for that long.
	cacheFor = time.Minute
	// cacheSize limits the memory that clients can fill.
	cacheSize = 1000
	// reviewTimeout is how long the API server may take for both reviews.
	reviewTimeout = 5 * time.Second
)

// The number of tokens that are reviewed, of one client address and of all: a second, and at
// once. Tokens that were accepted before do not count.
const (
	perClient, perClientAtOnce = 1, 5
	perSecond, atOnce          = 5, 20
)

// ReviewQPS is the number of requests a second that Authorized makes at most, but for a short
// time. Its client should have that limit.
const ReviewQPS = 2 * perSecond

// Authorized returns a handler that requires a bearer token of a user who may get the path
// (nonResourceURLs, verb get), as Kubernetes' own components do. The client must be allowed to
// create TokenReviews and SubjectAccessReviews. A request without a valid token gets 401, one
// without the permission 403, any request gets 503 while the API server does not respond, and
// 429 while clients present many unknown tokens. The client should serve nothing else: a client
// has a limit of requests, which anyone with invented tokens could exhaust.
//
// k8s.io/apiserver has the same two reviews, with the whole of an API server around them.
func Authorized(client kubernetes.Interface, h http.Handler) http.Handler {
	reviews := newReviewer(client)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !given || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		status, err := reviews.status(r, token)
		switch {
		case err != nil:
			klog.FromContext(r.Context()).Error(err, "Cannot ask the API server whether a client may read metrics")
			http.Error(w, "the API server does not review tokens now; try again", http.StatusServiceUnavailable)
		case status == http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many unknown tokens are presented; try again", status)
		case status != http.StatusOK:
			http.Error(w, http.StatusText(status), status)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// reviewer asks the API server about tokens, and caches its answers.
type reviewer struct {
	client kubernetes.Interface
	// Answers, by a hash, so that no token stays in memory: accepted has the time until which
	// one holds, refused the status. Invented tokens cannot replace accepted ones.
	accepted *lru.Cache
	refused  *utilcache.LRUExpireCache
	clients  *lru.Cache // the limit of each client address
	all      flowcontrol.RateLimiter
}

func newReviewer(client kubernetes.Interface) *reviewer {
	return &reviewer{client: client, accepted: lru.New(cacheSize), refused: utilcache.NewLRUExpireCache(cacheSize),
		clients: lru.New(cacheSize), all: flowcontrol.NewTokenBucketRateLimiter(perSecond, atOnce)}
}

// status returns the HTTP status that a client with the token gets.
func (r *reviewer) status(request *http.Request, token string) (int, error) {
	key := keyOf(request.URL.Path, token)
	until, known := r.accepted.Get(key)
	if known && time.Now().Before(until.(time.Time)) {
		return http.StatusOK, nil
	}
	if status, ok := r.refused.Get(key); ok {
		return status.(int), nil
	}
	if !known && !r.mayReview(request.RemoteAddr) {
		return http.StatusTooManyRequests, nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	status, err := r.review(ctx, token, request.URL.Path)
	switch {
	case err != nil:
		return 0, err
	case status == http.StatusOK:
		r.accepted.Add(key, time.Now().Add(cacheFor))
	default:
		r.accepted.Remove(key)
		r.refused.Add(key, status, cacheFor)
	}
	return status, nil
}

func keyOf(path, token string) [sha256.Size]byte { return sha256.Sum256([]byte(path + "\x00" + token)) }

// mayReview reports whether an unknown token of the client may be reviewed now.
func (r *reviewer) mayReview(client string) bool {
	if host, _, err := net.SplitHostPort(client); err == nil {
		client = host
	}
	limit, ok := r.clients.Get(client)
	if !ok {
		limit = flowcontrol.NewTokenBucketRateLimiter(perClient, perClientAtOnce)
		r.clients.Add(client, limit) // of two requests at once one gets the other's place
	}
	return limit.(flowcontrol.RateLimiter).TryAccept() && r.all.TryAccept()
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
