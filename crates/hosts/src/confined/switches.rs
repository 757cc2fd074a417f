//! Switches of the system that take user namespaces away, and how to turn them back.

/// What to do about the switches, if one is off. `read` gives the text of a file below `/proc/sys`.
pub(super) fn remedy(read: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    const SWITCHES: [(&str, &str, &str); 3] = [
        (
            "user/max_user_namespaces",
            "0",
            "allow user namespaces: sysctl user.max_user_namespaces=15000, and the same line in a file of \
             /etc/sysctl.d to keep it; then restart the server",
        ),
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, and the same line in a file of \
             /etc/sysctl.d to keep it; then restart the server",
        ),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "allow this program user namespaces with a profile of AppArmor (docs/confined.md has it), or all \
             programs with sysctl kernel.apparmor_restrict_unprivileged_userns=0; then restart the server",
        ),
    ];
    SWITCHES
        .iter()
        .find(|(name, off, _remedy)| read(name).is_some_and(|value| value.trim() == *off))
        .map(|(_name, _off, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_is_off_is_named() {
        for (name, value, expect) in [
            (
                "user/max_user_namespaces",
                "0\n",
                Some("user.max_user_namespaces="),
            ),
            ("user/max_user_namespaces", "96365\n", None),
            (
                "kernel/unprivileged_userns_clone",
                "0\n",
                Some("kernel.unprivileged_userns_clone=1"),
            ),
            ("kernel/unprivileged_userns_clone", "1\n", None),
            (
                "kernel/apparmor_restrict_unprivileged_userns",
                "1\n",
                Some("kernel.apparmor_restrict_unprivileged_userns=0"),
            ),
            ("kernel/apparmor_restrict_unprivileged_userns", "0\n", None),
        ] {
            let found = remedy(|asked| (asked == name).then(|| value.to_owned()));
            assert_eq!(found.is_some(), expect.is_some(), "{name} = {value}");
            assert!(
                expect.is_none_or(|part| found.is_some_and(|text| text.contains(part))),
                "{name} = {value}: {found:?}"
            );
        }
    }
}
