//! What a server can do.

use std::fs;

use unsnap_test_support::{genuine_full, ledger_tool, run};
use unsnap_testkit::server::{Personality, Server};

use crate::schema::Schema;

#[test]
fn every_kind_of_server_is_described() {
    let schema = Schema::of("doctor-url.v1.json", &[]);
    let name = genuine_full().file_name().unwrap().to_str().unwrap().to_owned();
    for personality in [Personality::agave(), Personality::nginx()] {
        let bytes = fs::read(genuine_full()).unwrap();
        let server = Server::start(&name, bytes, personality, Box::new(|_, _| None));
        let mut command = ledger_tool();
        command.args(["doctor", "--format=json", "--url"]).arg(server.url("/snapshot.tar.bz2"));
        schema.hold(&run(&mut command).assert_code(0).json());
    }
}
