package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// What is tested lies outside of this module. It is reached by the links deploy
// and configs, since go test does not look whether a file outside has changed.
const kubernetes = "deploy/kubernetes"

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// kinds are the types that Kubernetes decodes our manifests into.
var kinds = map[string]func() any{
	"v1/Namespace":                           func() any { return new(corev1.Namespace) },
	"v1/Service":                             func() any { return new(corev1.Service) },
	"v1/ConfigMap":                           func() any { return new(corev1.ConfigMap) },
	"v1/Secret":                              func() any { return new(corev1.Secret) },
	"apps/v1/StatefulSet":                    func() any { return new(appsv1.StatefulSet) },
	"policy/v1/PodDisruptionBudget":          func() any { return new(policyv1.PodDisruptionBudget) },
	"autoscaling/v2/HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1/NetworkPolicy":     func() any { return new(networkingv1.NetworkPolicy) },
}

// decode reads a file's documents strictly: a field that Kubernetes does not
// know is an error, as is one that is there twice or of another type.
func decode(t *testing.T, name string) (all []any) {
	t.Helper()
	for doc := range bytes.SplitSeq(read(t, name), []byte("\n---\n")) {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		create, ok := kinds[head.APIVersion+"/"+head.Kind]
		if !ok {
			t.Fatalf("%s: %s/%s is not among the kinds of this test", name, head.APIVersion, head.Kind)
		}
		v := create()
		if err := yaml.UnmarshalStrict(doc, v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, v)
	}
	return all
}

func TestTheManifestsAreWhatKubernetesReads(t *testing.T) {
	var kustomization struct {
		Resources []string
	}
	if err := yaml.Unmarshal(read(t, kubernetes+"/kustomization.yaml"), &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(kubernetes + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no manifests: %v", err)
	}
	for _, name := range files {
		base := filepath.Base(name)
		if base == "kustomization.yaml" {
			continue
		}
		decode(t, name)
		if listed := slices.Contains(kustomization.Resources, base); listed == (base == "secret.example.yaml") {
			t.Errorf("kustomization.yaml has %s: %v", base, listed)
		}
	}
}

// one is the only document of a file.
func one[T any](t *testing.T, name string) T {
	t.Helper()
	all := decode(t, filepath.Join(kubernetes, name))
	v, ok := all[0].(T)
	if !ok || len(all) != 1 {
		t.Fatalf("%s is not one document of the kind expected", name)
	}
	return v
}

// What refers to the pods must find them.
func TestTheManifestsFitTogether(t *testing.T) {
	set := one[*appsv1.StatefulSet](t, "statefulset.yaml")
	pods := set.Spec.Template.Labels
	selects := func(what string, selector map[string]string) {
		t.Helper()
		for k, v := range selector {
			if pods[k] != v {
				t.Errorf("%s selects %s=%s, which the pods do not have", what, k, v)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
	}
	selects("the StatefulSet", set.Spec.Selector.MatchLabels)
	selects("the PodDisruptionBudget", one[*policyv1.PodDisruptionBudget](t, "poddisruptionbudget.yaml").Spec.Selector.MatchLabels)
	selects("the NetworkPolicy", one[*networkingv1.NetworkPolicy](t, "networkpolicy.yaml").Spec.PodSelector.MatchLabels)
	headless := false
	for _, v := range decode(t, kubernetes+"/service.yaml") {
		s := v.(*corev1.Service)
		selects("the Service "+s.Name, s.Spec.Selector)
		headless = headless || s.Name == set.Spec.ServiceName && s.Spec.ClusterIP == "None"
	}
	if !headless {
		t.Error("the StatefulSet's service is not a headless one of service.yaml")
	}
	if ref := one[*autoscalingv2.HorizontalPodAutoscaler](t, "horizontalpodautoscaler.yaml").Spec.ScaleTargetRef; ref.Name != set.Name || ref.Kind != set.Kind {
		t.Errorf("the autoscaler's target is %s %s", ref.Kind, ref.Name)
	}
	pod := set.Spec.Template.Spec
	if c := pod.Containers[0]; c.EnvFrom[0].ConfigMapRef.Name != one[*corev1.ConfigMap](t, "configmap.yaml").Name || pod.Volumes[0].Secret.SecretName != one[*corev1.Secret](t, "secret.example.yaml").Name {
		t.Error("ConfigMap or Secret are not those of the pods")
	}
}

// The journal needs its disk and the session its name; both are the reason for
// a StatefulSet. And no pod may do more than it must.
func TestThePodsKeepWhatTheyPromise(t *testing.T) {
	set := one[*appsv1.StatefulSet](t, "statefulset.yaml")
	conf := one[*corev1.ConfigMap](t, "configmap.yaml").Data
	secret := one[*corev1.Secret](t, "secret.example.yaml").StringData
	c := set.Spec.Template.Spec.Containers[0]
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	if mounts[conf["DATA_DIR"]] != set.Spec.VolumeClaimTemplates[0].Name {
		t.Errorf("DATA_DIR=%s is on no volume", conf["DATA_DIR"])
	}
	if conf["MQTT_CLIENT_ID"] != "" || conf["MQTT_SHARE"] == "" {
		t.Error("the pods must share a subscription, each with its own client id")
	}
	for name, value := range conf {
		file, ok := strings.CutPrefix(value, "/etc/gudang/secrets/")
		if _, there := secret[file]; strings.HasSuffix(name, "_FILE") && (!ok || !there) {
			t.Errorf("%s=%s is not in the Secret", name, value)
		}
	}
	if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !*set.Spec.Template.Spec.SecurityContext.RunAsNonRoot {
		t.Error("the container may do more than it must")
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("a store that is away would get the pods killed")
	}
}

func TestTheConfigMapIsTheConfig(t *testing.T) {
	want := map[string]string{}
	for line := range strings.Lines(string(read(t, "configs/kubernetes-fleet.env"))) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			want[name] = value
		}
	}
	got := one[*corev1.ConfigMap](t, "configmap.yaml").Data
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s is %q in the ConfigMap and %q in configs/kubernetes-fleet.env", name, got[name], want[name])
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("the ConfigMap has %d settings, configs/kubernetes-fleet.env %d", len(got), len(want))
	}
}
