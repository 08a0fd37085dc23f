//! Confinement of a link (Landlock): it opens no files, and connects to nothing but a few ports.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

/// Confines the calling thread for good, as far as the kernel can. A link parses what a server sends,
/// and needs nothing but its connection.
pub fn confine(ports: &[u16]) {
    if let Err(error) = restrict(ports) {
        tracing::info!(%error, "a link is not confined");
    }
}

fn restrict(ports: &[u16]) -> Result<(), RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(
            ports
                .iter()
                .map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp))),
        )?
        .restrict_self()?;
    Ok(())
}
