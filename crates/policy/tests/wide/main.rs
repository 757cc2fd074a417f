//! Tests of the policy that need no server: the corpora, each rule by itself, other readers of the same input, published
//! bypasses.

#[cfg(test)]
mod advisories;
#[cfg(test)]
mod analysis_rules;
#[cfg(test)]
mod attack;
#[cfg(test)]
mod command_corpus;
#[cfg(test)]
mod oracles;
#[cfg(test)]
mod world;
