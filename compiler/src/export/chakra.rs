//! Plans as execution traces of `MLCommons` Chakra, one for each rank, for simulators of networks
//! as ASTRA-sim.
//!
//! A trace is a graph without loops: metadata, then nodes, each message after its length. Blocks
//! are written out, every layer and microbatch with nodes of its own; a step of a pipeline's layer
//! that runs for each microbatch is as many nodes. An edge is a value that a node reads. A value
//! that one stage passes to another is a send there and a receive here; so is a permute.
//!
//! Alternatives. *Protocol Buffers' code generator* would need its compiler at build time, and *a
//! crate for the wire format* a dependency of every user, for the two kinds of fields that traces
//! have: numbers and bytes. *One trace for all ranks* would be smaller; but names of groups and
//! neighbours differ, and ASTRA-sim reads a file for each rank.
//!
//! | file | |
//! | --- | --- |
//! | `message` | the wire format |
//! | `nodes` | the nodes of a rank |

mod message;
mod nodes;

use std::collections::BTreeMap;

use crate::Planned;
use nodes::Graph;

/// The traces of a plan.
pub struct Traces {
    graph: Graph,
}

impl Traces {
    /// The traces of a plan, or what keeps it from being written.
    pub(crate) fn of(planned: &Planned) -> super::walk::Result<Self> {
        Ok(Self { graph: Graph::of(planned)? })
    }

    /// The number of ranks: the devices of the mesh, numbered in its order, the first axis the
    /// major one.
    pub fn ranks(&self) -> u64 {
        self.graph.ranks()
    }

    /// The trace of a rank (`GlobalMetadata`, then `Node`s, each after its length as a varint).
    pub fn trace(&self, rank: u64) -> Vec<u8> {
        self.graph.trace(rank)
    }

    /// The groups of ranks that nodes name in `pg_name`, as ASTRA-sim reads them: JSON, the ranks
    /// of each by its name.
    pub fn groups(&self) -> String {
        let groups: BTreeMap<String, &Vec<u64>> =
            self.graph.groups().map(|(number, ranks)| (number.to_string(), ranks)).collect();
        serde_json::to_string_pretty(&groups).unwrap_or_default() + "\n"
    }
}
