package clientmetrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queues implements workqueue.MetricsProvider.
type queues struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	queued, worked             *prometheus.HistogramVec
}

func newQueues() queues {
	name := []string{"name"}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric, Help: help}, name)
	}
	counter := func(metric, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric, Help: help}, name)
	}
	histogram := func(metric, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric, Help: help, Buckets: []float64{.001, .01, .1, 1, 10, 100},
		}, name)
	}
	return queues{
		depth: gauge("workqueue_depth", "Current depth of workqueue."),
		unfinished: gauge("workqueue_unfinished_work_seconds",
			"Seconds of work that is in progress and has not been observed by work_duration."),
		longest: gauge("workqueue_longest_running_processor_seconds",
			"Seconds that the longest running processor of the workqueue has been running."),
		adds:    counter("workqueue_adds_total", "Number of adds handled by workqueue."),
		retries: counter("workqueue_retries_total", "Number of retries handled by workqueue."),
		queued: histogram("workqueue_queue_duration_seconds",
			"Seconds that an item stays in workqueue before it is requested."),
		worked: histogram("workqueue_work_duration_seconds", "Seconds that processing an item from workqueue takes."),
	}
}

func (q queues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}

func (q queues) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

func (q queues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.queued.WithLabelValues(name)
}

func (q queues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.worked.WithLabelValues(name)
}

func (q queues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}

func (q queues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longest.WithLabelValues(name)
}

func (q queues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}
