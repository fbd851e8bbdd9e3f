package manifests

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// systemd takes the unit: it knows every setting in it, and thinks well of what is closed.
func TestSystemdTakesTheUnit(t *testing.T) {
	unit := strings.ReplaceAll(read(t, "systemd/fairlead.service"), "/usr/local/bin/fairlead", fairlead)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	version := regexp.MustCompile(`systemd (\d+)`).FindStringSubmatch(must(t, nil, analyze, "--version"))
	release, err := strconv.Atoi(version[1])
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, t.TempDir(), "fairlead.service", unit)
	said := must(t, nil, analyze, "verify", file)
	if release < 253 { // which has brought notify-reload
		said = regexp.MustCompile(`(?m)^.*Failed to parse service type, ignoring: notify-reload\n`).ReplaceAllString(said, "")
	}
	if strings.TrimSpace(said) != "" {
		t.Errorf("systemd-analyze verify says\n%s", said)
	}
	broken := write(t, t.TempDir(), "fairlead.service", strings.Replace(unit, "ProtectHome=yes", "ProtectHouse=yes", 1))
	if said := must(t, nil, analyze, "verify", broken); !strings.Contains(said, "ProtectHouse") {
		t.Error("the check does not find a setting that there is not")
	}
	level := regexp.MustCompile(`Overall exposure level[^:]*: ([0-9.]+)`).FindStringSubmatch(must(t, nil, analyze, "security", "--offline=true", file))
	if level == nil {
		t.Skip("systemd-analyze security does not work here")
	}
	if exposure, err := strconv.ParseFloat(level[1], 64); err != nil || exposure > 2 {
		t.Errorf("the unit's exposure is %s", level[1])
	}
}

// The unit's file is right, and its credentials are where systemd puts them.
func TestTheUnitsFile(t *testing.T) {
	valid(t, read(t, "systemd/fairlead.yaml"), "CREDENTIALS_DIRECTORY=/run/credentials/fairlead.service")
	for _, line := range []string{"Type=notify-reload", "LoadCredential=nats.creds:", "RuntimeDirectory=fairlead", "RestartPreventExitStatus=2 78"} {
		if !strings.Contains(read(t, "systemd/fairlead.service"), line) {
			t.Errorf("the unit does not say %s", line)
		}
	}
}
