//! Optimizers (`SW61x`).

use super::Code;

/// `unknown-optimizer`
pub const UNKNOWN: &str = "SW611";
/// `bad-setting`
pub const SETTING: &str = "SW612";
/// `misplaced-optimizer`
pub const MISPLACED: &str = "SW613";
/// `state-name-taken`
pub const NAME_TAKEN: &str = "SW614";

pub(super) const CODES: &[Code] = &[
    Code {
        code: UNKNOWN,
        name: "unknown-optimizer",
        page: "A program asks for an optimizer that the language does not have. There are `adam`, \
            `adamw`, `sgd` and `muon`.

Triggered by:

    backward from Loss
    optimizer adams

Write instead the nearest one, or write the update as statements: `next W = W.new` declares the \
            parameter of the next step.",
    },
    Code {
        code: SETTING,
        name: "bad-setting",
        page: "An optimizer does not have this setting, or its value has the wrong type. All \
            optimizers have `rate` and `tables`, the rate of tables whose rows are looked up \
            (numbers), and the dtypes `moments` and `master`; `adam` and `adamw` have `beta1`, `beta2`, `eps` and `decay`, `sgd` has `momentum`, and `muon` has \
            `momentum`, what `adam` has, and `adam`, its rate.

Triggered by:

    optimizer adam, moments=0.9

Write instead the value that the help shows:

    optimizer adam, moments=bf16",
    },
    Code {
        code: MISPLACED,
        name: "misplaced-optimizer",
        page: "An optimizer is where there are no gradients to update by: without a `backward` \
            before it, a second time, inside a `repeat`, or in an explicit program.

Triggered by:

    optimizer adam
    backward from Loss

Write instead one optimizer after `backward`, outside all blocks; it updates the parameters of \
            every layer.",
    },
    Code {
        code: NAME_TAKEN,
        name: "state-name-taken",
        page: "The optimizer's state of a parameter `W` is called `mW` and `vW`, and its copy \
            `W.master`. A `state` of that name and with the parameter's dimensions is used as the \
            optimizer's, however it is sharded; but here another value has the name.

Triggered by:

    param W[D, F]
    mW = gelu(X)
    backward from Loss
    optimizer adam

Write instead another name for what is not the optimizer's state.",
    },
];
