//! `export chakra`: traces are read again by the fields of Chakra's schema. What they compute and
//! send is what the plan does; no rank waits for another for ever.

use std::collections::{BTreeMap, BTreeSet};

use shardwise::export::Traces;
use shardwise::json::Operation;
use shardwise::{Options, Planned, plan};
use shardwise_tests::{files, read};

/// A field of a message: its number, and a number or bytes.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let (byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn delimited<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let length = varint(bytes) as usize;
    let (part, rest) = bytes.split_at(length);
    *bytes = rest;
    part
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => Field::Bytes(delimited(&mut bytes)),
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

/// A node of a trace.
#[derive(Default)]
struct Node {
    id: u64,
    kind: u64,
    waits: Vec<u64>,
    numbers: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

fn node(bytes: &[u8]) -> Node {
    let mut node = Node::default();
    for field in fields(bytes) {
        match field {
            (1, Field::Number(id)) => node.id = id,
            (3, Field::Number(kind)) => node.kind = kind,
            (5, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    node.waits.push(varint(&mut packed));
                }
            }
            (10, Field::Bytes(attribute)) => attributed(&mut node, attribute),
            _ => {}
        }
    }
    node
}

/// The field that Chakra's own reader (`ETFeederNode`) takes a number from; others are 0 to it.
fn field_of(attribute: &str) -> u64 {
    match attribute {
        "comm_src" | "comm_dst" | "comm_tag" => 7,
        "comm_type" | "comm_size" | "num_ops" => 9,
        "tensor_size" => 13,
        "is_cpu_op" => 27,
        other => panic!("`{other}` is no attribute that it reads"),
    }
}

fn attributed(node: &mut Node, attribute: &[u8]) {
    let mut name = String::new();
    for field in fields(attribute) {
        match field {
            (1, Field::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
            (number @ (7 | 9 | 13 | 27), Field::Number(value)) => {
                assert_eq!(number, field_of(&name), "{name}");
                node.numbers.insert(name.clone(), value);
            }
            (29, Field::Bytes(text)) => {
                node.texts.insert(name.clone(), String::from_utf8_lossy(text).into_owned());
            }
            (28, Field::Bytes(_)) => {}
            (number, _) => panic!("field {number} of an attribute"),
        }
    }
}

/// The nodes of a rank: numbered in order, each after what it waits for.
fn nodes(traces: &Traces, rank: u64) -> Vec<Node> {
    let bytes = traces.trace(rank);
    let mut rest = bytes.as_slice();
    let metadata = fields(delimited(&mut rest));
    assert!(matches!(metadata[0], (1, Field::Bytes(version)) if !version.is_empty()));
    let mut found: Vec<Node> = Vec::new();
    while !rest.is_empty() {
        let node = node(delimited(&mut rest));
        assert_eq!(node.id, found.len() as u64);
        assert!(node.waits.iter().all(|&other| other < node.id));
        found.push(node);
    }
    found
}

fn planned(name: &str, program: &str) -> Option<Planned> {
    let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
    plan(name, program, &options).ok()
}

/// Every message is received, with its size; ranks of a group are at the same collectives.
fn consistent(name: &str, traces: &Traces) {
    let mut sent = BTreeSet::new();
    let mut received = BTreeSet::new();
    let mut meetings: BTreeMap<String, BTreeSet<Vec<[u64; 2]>>> = BTreeMap::new();
    for rank in 0..traces.ranks() {
        let mut of_group: BTreeMap<String, Vec<[u64; 2]>> = BTreeMap::new();
        for node in nodes(traces, rank) {
            let number = |name: &str| node.numbers[name];
            let message = || ["comm_src", "comm_dst", "comm_tag", "comm_size"].map(number);
            match node.kind {
                2 | 3 => assert!(number("tensor_size") > 0, "{name}"),
                4 => assert!(number("num_ops") + number("tensor_size") > 0, "{name}"),
                5 => assert!(number("comm_src") == rank && sent.insert(message()), "{name}"),
                6 => assert!(number("comm_dst") == rank && received.insert(message()), "{name}"),
                7 => of_group
                    .entry(node.texts["pg_name"].clone())
                    .or_default()
                    .push([number("comm_type"), number("comm_size")]),
                other => panic!("a node of type {other}"),
            }
        }
        for (group, collectives) in of_group {
            meetings.entry(group).or_default().insert(collectives);
        }
    }
    assert_eq!(sent, received, "{name}");
    assert!(meetings.values().all(|orders| orders.len() == 1), "{name}");
}

#[test]
fn no_rank_of_a_program_waits_for_ever() {
    let mut written = 0;
    for folder in ["book", "layers", "microbatches", "operations", "pipelines", "nested"] {
        for (name, program) in files(&format!("tests/programs/{folder}"), ".shard") {
            let Some(planned) = planned(&name, &program) else { continue };
            let Ok(traces) = planned.small(16).chakra() else { continue };
            consistent(&name, &traces);
            written += 1;
        }
    }
    assert!(written > 120, "{written}");
}

#[test]
fn a_rank_computes_and_communicates_as_often_as_the_plan_says() {
    for name in ["fsdp_tp", "layers/train", "microbatches/adam", "pipelines/gpipe"] {
        let program = read(&format!("tests/programs/{name}.shard"));
        let planned = planned(name, &program).expect("it has a plan");
        let json = planned.json();
        let traces = planned.chakra().expect("they are written");
        let found = nodes(&traces, traces.ranks() - 1);
        let flops: f64 = json.steps.iter().map(|step| step.flops * step.times as f64).sum();
        let ops: u64 = found.iter().filter_map(|node| node.numbers.get("num_ops")).sum();
        assert!((ops as f64 - flops).abs() <= 1e-9 * flops, "{name}: {ops} instead of {flops}");
        let is_collective = |operation: &Operation| {
            matches!(
                operation,
                Operation::AllGather { .. }
                    | Operation::AllReduce { .. }
                    | Operation::ReduceScatter { .. }
                    | Operation::AllToAll { .. }
            )
        };
        let steps = json.steps.iter().filter(|it| it.operation.as_ref().is_some_and(is_collective));
        let wanted: u64 = steps.map(|step| step.times).sum();
        let collectives = found.iter().filter(|node| node.kind == 7).count() as u64;
        assert_eq!(collectives, wanted, "{name}");
    }
}

#[test]
fn groups_are_the_ranks_along_the_axes_of_a_collective() {
    let program = "hardware tpu-v5p\nmesh X=2, Y=2\ndim B=8, D=16\n\
                   input A[B_X, D_Y]\noutput A[B_X, D]\n";
    let traces =
        planned("gather", program).expect("it has a plan").chakra().expect("it is written");
    let groups: BTreeMap<String, Vec<u64>> =
        serde_json::from_str(&traces.groups()).expect("it is JSON");
    assert_eq!(groups.into_values().collect::<Vec<_>>(), [vec![0, 1], vec![2, 3]]);
    let found = nodes(&traces, 2);
    assert_eq!((found.len(), found[0].texts["pg_name"].as_str()), (1, "1"));
    // What a rank has before, in bf16.
    assert_eq!((found[0].numbers["comm_type"], found[0].numbers["comm_size"]), (2, 4 * 8 * 2));
}
