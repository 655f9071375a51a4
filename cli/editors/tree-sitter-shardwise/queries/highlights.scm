(comment) @comment
(string) @string

; Statements
[
  (plan) "hardware" "mesh" "dim" "input" "param" "frozen" "state" "output" "assert" "allow"
  "backward" "phase" "optimizer" "carry" "next" "checkpoint" "hold" "repeat" "scan" "pipeline" "stage"
  "microbatches"
] @keyword

[
  "over" "as" "pad" "zigzag" "no" "stays" "sharded" "from" "given" "gradients" "until" "step" "update" "weights" "regathered" "kept" "chosen" "forward"
  "reversed" "in" "of" "keep" "only" "offload"
] @keyword

; Names
(value name: (identifier) @variable)
(tensor name: (identifier) @variable)
(call_option name: (identifier) @variable.parameter)
(setting name: (identifier) @variable.parameter)
(pipeline_option name: (identifier) @variable.parameter)

; Dimensions and mesh axes
(axis_declaration name: (identifier) @constant)
(axis) @constant
(option) @attribute
(dimension) @property
(sharded_dimension) @property
(contraction) @property
(unknown) @constant.builtin
(unknown_axes) @constant.builtin
(reduction) @keyword.operator

; What is called
(call function: (function) @function)
(bare_call function: (function) @function)
((function) @function.builtin
  (#any-of? @function.builtin
    "AllGather" "AllReduce" "ReduceScatter" "AllToAll" "Permute" "Slice" "Unreduce"))

; Constants
(dtype) @type
(hardware_name) @constant
(code) @constant
(kernel_name) @label
(number) @constant.numeric
(size_number) @constant.numeric
(factors) @constant.numeric
(amount) @constant.numeric
(setting_value) @constant
(option_word) @constant

["=" "+" "-" "/" "*" "·" "⋅" "\\cdot" "->" "→" "<=" ">=" "==" "!=" "≤" "≥" "≠"] @operator
["[" "]" "{" "}" "\\{" "\\}" "(" ")"] @punctuation.bracket
["," ":"] @punctuation.delimiter
