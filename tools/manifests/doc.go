// Package manifests tests what is deployed against the types and schemas of
// those who read it: Kubernetes' own, and the Compose specification's. It is a
// module of its own, so that what they need stays out of ours.
package manifests
