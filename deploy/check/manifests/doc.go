// Package manifests holds no code. Its tests read what is in deploy/ with the parsers and the rules of those who will read it:
// the validation of the Kubernetes API server, the levels of pod security, kustomize, Compose's loader, BuildKit's parser, nats-server,
// systemd-analyze, and the agent itself. One of them runs what the files describe, without containers.
package manifests
