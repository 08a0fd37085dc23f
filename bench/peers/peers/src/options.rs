//! What a run is asked to do.

use crate::programs::UnsnapBinary;
use crate::scenarios::{SCENARIOS, Scenario};
use crate::size::parse_size;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Options of `run`.
#[derive(Args)]
pub struct RunOptions {
    /// Directory for archives and outputs, on the disk that is to be measured
    #[arg(long, value_name = "DIR")]
    pub work: PathBuf,

    /// Scenarios, such as one,frames-dry [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub archives: Vec<String>,

    /// Tools [default: all of each scenario]
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub tools: Vec<String>,

    /// How often each tool runs
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub rounds: u32,

    /// Space to leave free on the disk
    #[arg(long, default_value = "20GB", value_parser = parse_size, value_name = "SIZE")]
    pub keep_free: u64,

    /// Do not delete archives to make room for others
    #[arg(long)]
    pub keep_archives: bool,

    /// Factor to all sizes, for trying this out
    #[arg(long, default_value_t = 1.0, value_name = "F")]
    pub scale: f64,

    /// Another ledger-tool binary, instead of the one built here or, with a name, beside it
    #[arg(long, value_name = "[NAME=]PATH", value_parser = UnsnapBinary::parse)]
    pub unsnap: Vec<UnsnapBinary>,

    /// File of results [default: results/results.jsonl, or for scaled runs a file in --work]
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
}

impl RunOptions {
    /// Whether the sizes are not those of the table.
    pub fn is_scaled(&self) -> bool {
        (self.scale - 1.0).abs() > f64::EPSILON
    }

    /// The scenarios that were asked for.
    pub fn scenarios(&self) -> Result<Vec<&'static Scenario>> {
        let known = |id: &String| SCENARIOS.iter().any(|scenario| scenario.id == id);
        if let Some(id) = self.archives.iter().find(|id| !known(id)) {
            let ids: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.id).collect();
            bail!("there is no scenario {id:?}; there are {}", ids.join(", "));
        }
        let wanted = |scenario: &&Scenario| {
            self.archives.is_empty() || self.archives.iter().any(|id| id == scenario.id)
        };
        let known =
            |id: &String| SCENARIOS.iter().any(|scenario| scenario.tools.contains(&id.as_str()));
        if let Some(id) = self.tools.iter().find(|id| !known(id)) {
            bail!("there is no tool {id:?}");
        }
        Ok(SCENARIOS.iter().filter(wanted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: RunOptions,
    }

    fn options(arguments: &[&str]) -> RunOptions {
        Cli::parse_from(["run", "--work", "W"].iter().chain(arguments)).options
    }

    #[test]
    fn scenarios_are_those_asked_for() {
        let ids = |arguments: &[&str]| -> Option<Vec<&str>> {
            let scenarios = options(arguments).scenarios().ok()?;
            Some(scenarios.iter().map(|scenario| scenario.id).collect())
        };
        assert_eq!(ids(&[]).map(|ids| ids.len()), Some(SCENARIOS.len()));
        assert_eq!(ids(&["--archives", "small,one"]), Some(vec!["one", "small"]));
        assert_eq!(ids(&["--archives", "none"]), None);
        assert_eq!(ids(&["--tools", "none"]), None);
        assert!(!options(&[]).is_scaled());
        assert!(options(&["--scale", "0.5"]).is_scaled());
    }
}
