//! Tests of the policy that need no server: other readers of the same input, attacks, published bypasses.

#[cfg(test)]
mod advisories;
#[cfg(test)]
mod attack;
#[cfg(test)]
mod oracles;
#[cfg(test)]
mod world;

#[cfg(test)]
mod tests {
    use countersign_policy::command::RuleSet;

    #[test]
    fn a_set_of_rules_holds_nothing_that_could_be_switched() {
        assert_eq!(size_of::<RuleSet>(), 0);
    }
}
