//! Bytes of reshards against their lower bounds: pairs whose bounds are known, and all pairs on
//! the smallest mesh, for which the page has the figures. The target `thorough` compares the rest.

use shardwise::Options;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::{Pin, Sharding};
use shardwise_tests::read;
use shardwise_tests::reshards::bound::Devices;
use shardwise_tests::reshards::{MESHES, Pairs};

/// Two shardings of `A`, and the program that declares them.
fn sides(from: &str, to: &str) -> (Program, [Sharding; 2]) {
    let source = format!(
        "hardware gb200-nvl72\nmesh X=2, Y=2, Z=2\ndim I=8, J=8\ninput A{from}\noutput A{to}\n"
    );
    let checked = shardwise::check("pair", &source, &Options::default());
    let program = checked.program.unwrap_or_else(|| panic!("{}\n{source}", checked.findings));
    let program = program.into_program();
    let before = program.values[ValueId::new(0)].declared_sharding.as_ref().and_then(Pin::exact);
    let after = program.outputs[0].pin.exact();
    let sides = [before, after].map(|side| side.expect("both sides are written out"));
    (program, sides)
}

#[test]
fn known_bounds() {
    for (from, to, values) in [
        // Each of eight devices lacks a half.
        ("[I_X, J]", "[I, J]", Some(4.0)),
        // Of eighths each lacks a half of it: an AllToAll of two.
        ("[I_XYZ, J]", "[I_XY, J_Z]", Some(0.5)),
        ("[I_XYZ, J]", "[I, J_XYZ]", Some(0.875)),
        // Half of the devices are where they should be.
        ("[I_X, J]", "[I_Y, J]", Some(2.0)),
        ("[I, J]", "[I_X, J_Y]", Some(0.0)),
        // Seven messages add up eight terms, and seven more bring the sum everywhere.
        ("[I, J] {U_XYZ}", "[I, J]", Some(14.0)),
        ("[I, J] {U_XYZ}", "[I_XYZ, J]", Some(7.0)),
        // Four devices have each of two terms: one message adds them up.
        ("[I, J] {U_X}", "[I_XYZ, J]", Some(1.0)),
        ("[I, J] {U_X}", "[I, J]", Some(8.0)),
        // Both values of a term of Y, each the sum of two terms.
        ("[I_Z, J] {U_XY}", "[I_Z, J] {U_Y}", Some(4.0)),
        // No device that needs a block of the result has a term of it, or half of them have.
        ("[I_X, J] {U_Y}", "[I_Y, J]", Some(4.0)),
        ("[I, J]", "[I, J] {U_X}", None),
    ] {
        let (program, [before, after]) = sides(from, to);
        let devices = Devices { mesh: &program.mesh, rank: 2 };
        assert_eq!(devices.least(&before, &after), values, "{from} to {to}");
    }
}

#[test]
fn the_page_has_the_bytes_of_all_pairs_of_eight_devices() {
    let page = read("compiler/docs/reshards.md");
    for pairs in Pairs::all().into_iter().filter(|pairs| pairs.mesh == MESHES[0]) {
        let row = pairs.find().row();
        assert!(
            page.contains(&row),
            "compiler/docs/reshards.md is out of date; run INSTA_UPDATE=always cargo test \
             --release -p shardwise-tests --test thorough reshards\n{row}"
        );
    }
}
