// Package record defines the record of a volume: what the agent must remember of it
// and its directory cannot show. A record is a JSON file in the pool; the page
// docs/on-disk-format.md has its states and what a crash leaves of them.
package record
