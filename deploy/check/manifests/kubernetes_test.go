package manifests

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	admission "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// rendered is what kubectl apply -k would send.
func rendered(t *testing.T, folder string) (objects []runtime.Object) {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "deploy/kubernetes", folder))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	// Strict: an unknown or a repeated field is an error.
	decode := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for one := range bytes.SplitSeq(text, []byte("\n---\n")) {
		o, _, err := decode.Decode(one, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, one)
		}
		objects = append(objects, o)
	}
	return objects
}

// podOf is the pod that an object makes, if it makes any.
func podOf(o runtime.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

// judge is what the API server's own validation says of an object.
func judge(t *testing.T, o runtime.Object) field.ErrorList {
	t.Helper()
	o = o.DeepCopyObject()
	legacyscheme.Scheme.Default(o)
	if meta, ok := o.(interface {
		GetNamespace() string
		SetNamespace(string)
	}); ok && meta.GetNamespace() == "" && o.GetObjectKind().GroupVersionKind().Kind != "Namespace" {
		meta.SetNamespace("default")
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(o, runtime.InternalGroupVersioner)
	if err != nil {
		t.Fatal(err)
	}
	switch o := internal.(type) {
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, corevalidation.PodValidationOptions{})
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, corevalidation.PodValidationOptions{})
	case *batch.Job:
		return slices.DeleteFunc(batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{}), func(e *field.Error) bool {
			return e.Field == "spec.selector" || strings.HasPrefix(e.Field, "spec.template.metadata.labels") || strings.HasPrefix(e.Field, "metadata.labels") || strings.HasPrefix(e.Field, "spec.template.labels") // the API server makes these
		})
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o)
	case *core.Secret:
		return corevalidation.ValidateSecret(o)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o)
	case *core.Namespace:
		return corevalidation.ValidateNamespace(o)
	case *core.Service:
		o.Spec.ClusterIPs, o.Spec.ClusterIP = []string{"10.0.0.1"}, "10.0.0.1"
		return corevalidation.ValidateServiceCreate(o)
	}
	t.Fatalf("there is no validation of %T", internal)
	return nil
}

var folders = []string{"base", "setup", "nats", "try"}

// Every object passes the API server's own validation, and its pods the restricted level of pod security.
func TestKubernetesTakesTheManifests(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	for _, folder := range folders {
		for _, o := range rendered(t, folder) {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			if errs := judge(t, o); len(errs) > 0 {
				t.Errorf("%s: %s: %v", folder, kind, errs.ToAggregate())
			}
			if pod := podOf(o); pod != nil {
				for _, r := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
					if !r.Allowed {
						t.Errorf("%s: %s: pod security: %s: %s", folder, kind, r.ForbiddenReason, r.ForbiddenDetail)
					}
				}
			}
		}
	}
}

// The check can fail: mistakes that people make in such a pod are found.
func TestKubernetesRefusesMistakes(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.PodSpec){
		"a mount without a volume":        func(p *corev1.PodSpec) { p.Volumes = p.Volumes[1:] },
		"a port's name that is not there": func(p *corev1.PodSpec) { p.InitContainers[0].Ports[0].Name = "a_b" },
		"a probe without a sidecar":       func(p *corev1.PodSpec) { p.InitContainers[0].RestartPolicy = nil },
		"a hook that does nothing":        func(p *corev1.PodSpec) { p.InitContainers[0].Lifecycle.PreStop.Exec = nil },
	} {
		deployment := find[*appsv1.Deployment](t, rendered(t, "base"))
		spoil(&deployment.Spec.Template.Spec)
		if len(judge(t, deployment)) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

func find[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	for _, o := range objects {
		if found, ok := o.(T); ok {
			return found
		}
	}
	t.Fatalf("there is no %T", *new(T))
	panic("unreachable")
}

// The agent is a native sidecar that starts before the app, drains before it ends, and may do nothing else.
func TestTheAgentIsASidecar(t *testing.T) {
	for _, folder := range []string{"base", "try"} {
		pod := find[*appsv1.Deployment](t, rendered(t, folder)).Spec.Template.Spec
		agent := pod.InitContainers[0]
		if agent.RestartPolicy == nil || *agent.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Error("the agent is no native sidecar")
		}
		if agent.StartupProbe.HTTPGet.Path != "/livez" || agent.LivenessProbe.HTTPGet.Path != "/livez" || agent.ReadinessProbe.HTTPGet.Path != "/readyz" {
			t.Error("the probes ask the wrong questions")
		}
		hook := strings.Join(agent.Lifecycle.PreStop.Exec.Command, " ")
		if hook != "/usr/local/bin/fairlead drain --wait 30s" {
			t.Errorf("preStop is %q", hook)
		}
		if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < 30*time.Second+20*time.Second {
			t.Errorf("a grace period of %v is too short for a drain of 30s and what comes after it", grace)
		}
		for _, v := range pod.Volumes {
			switch {
			case v.Name == "socket" && (v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory):
				t.Error("the socket's folder is not in memory")
			case v.Secret != nil && *v.Secret.DefaultMode != 0o400:
				t.Errorf("the secret has mode %o", *v.Secret.DefaultMode)
			}
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "socket" && m.MountPath == "/run/fairlead" }) {
				t.Errorf("%s does not have the socket", c.Name)
			}
			if secret := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "nats" }); secret != (c.Name == "fairlead") {
				t.Errorf("%s: mounts the secret of NATS: %v", c.Name, secret)
			}
			if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s can write to its root", c.Name)
			}
		}
	}
}

// agentFile is the agent's file in the ConfigMap.
func agentFile(t *testing.T, folder string) string {
	t.Helper()
	for _, o := range rendered(t, folder) {
		if c, ok := o.(*corev1.ConfigMap); ok && c.Name == "fairlead" {
			return c.Data["fairlead.yaml"]
		}
	}
	t.Fatal("there is no ConfigMap fairlead")
	return ""
}

// The agent itself takes the file in the ConfigMap, with what the pod's environment has and nothing else.
func TestTheAgentTakesTheConfigMap(t *testing.T) {
	for _, folder := range []string{"base", "try"} {
		var env []string
		for _, e := range find[*appsv1.Deployment](t, rendered(t, folder)).Spec.Template.Spec.InitContainers[0].Env {
			env = append(env, e.Name+"="+cmp.Or(e.Value, "orders-7f9c")) // or what the pod or the secret says
		}
		valid(t, agentFile(t, folder), env...)
	}
}
