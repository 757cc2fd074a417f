//! What the built-in sandbox does otherwise than a Docker engine would.

use countersign_config::settings::DockerSettings;

/// What of these settings the built-in sandbox does not do, each with the key, for warnings and findings.
pub fn remarks(settings: &DockerSettings) -> Vec<String> {
    let DockerSettings {
        image: _,
        container_prefix: _,
        workdir: _,
        read_only_root: _,
        network: _,
        tmpfs: _,
        // Commands have none at all.
        cap_drop: _,
        user,
        setup_command: _,
        pids_limit: _,
        // Held to by control groups where there are any; a run that is not says so itself.
        memory_bytes: _,
        memory_swap_bytes,
        nano_cpus: _,
        ulimits: _,
        seccomp_profile,
        apparmor_profile,
        dns,
        extra_hosts,
        env: _,
        binds: _,
    } = settings;
    let ignored = [
        ("user", user.is_some()),
        ("seccompProfile", seccomp_profile.is_some()),
        ("apparmorProfile", apparmor_profile.is_some()),
        ("dns", !dns.is_empty()),
        ("extraHosts", !extra_hosts.is_empty()),
        ("memorySwap", memory_swap_bytes.is_some()),
    ];
    ignored
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(key, _)| format!("sandbox.docker.{key} is ignored by the built-in sandbox"))
        .collect()
}
