//! Plans against oracles that share no code with the planner: brute force, simulated devices,
//! finite differences, closed formulas.

mod brute_force;
mod collective_matmul;
mod deep_stacks;
mod dual_bounds;
mod numerical_gradients;
mod parts_for_reshards;
mod pipeline_bubbles;
mod pipeline_formulas;
mod plans_within_memory;
mod regrouping;
mod schedules_of_layers;
mod simulated_devices;
