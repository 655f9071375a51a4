"""Reads execution traces of MLCommons Chakra, and checks that a simulator could run them.

    read_traces.py FOLDER ...

The messages are those of Chakra's schema (`et_def.proto`), of which the fields that are used here
are declared below; Protocol Buffers' own library reads them. A folder has a trace for each rank and
the groups of ranks. It is run: a node ends when what it waits for has ended, a collective when all
ranks of its group are at it, a receive when its message was sent. The script prints a line for each
folder, and fails if a trace cannot be read or waits for ever.
"""

import json
import pathlib
import sys
from collections import Counter, defaultdict

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = {2: "load", 3: "store", 4: "compute", 5: "send", 6: "receive", 7: "collective"}
COLLECTIVES = {0: "all_reduce", 2: "all_gather", 6: "all_to_all", 7: "reduce_scatter"}
# The field that Chakra's own reader (`ETFeederNode`) takes each attribute from.
FIELDS = {
    "is_cpu_op": "bool_val", "num_ops": "int64_val", "tensor_size": "uint64_val",
    "comm_type": "int64_val", "comm_size": "int64_val", "comm_src": "int32_val",
    "comm_dst": "int32_val", "comm_tag": "int32_val", "pg_name": "string_val",
    "involved_dim": "bool_list",
}  # fmt: skip
FIELD = descriptor_pb2.FieldDescriptorProto
SCHEMA = {
    "BoolList": [("values", 1, FIELD.TYPE_BOOL, True)],
    "AttributeProto": [
        ("name", 1, FIELD.TYPE_STRING, False),
        ("int32_val", 7, FIELD.TYPE_INT32, False),
        ("int64_val", 9, FIELD.TYPE_INT64, False),
        ("uint64_val", 13, FIELD.TYPE_UINT64, False),
        ("bool_val", 27, FIELD.TYPE_BOOL, False),
        ("bool_list", 28, "BoolList", False),
        ("string_val", 29, FIELD.TYPE_STRING, False),
    ],
    "GlobalMetadata": [("version", 1, FIELD.TYPE_STRING, False)],
    "Node": [
        ("id", 1, FIELD.TYPE_UINT64, False),
        ("name", 2, FIELD.TYPE_STRING, False),
        ("type", 3, FIELD.TYPE_INT32, False),
        ("data_deps", 5, FIELD.TYPE_UINT64, True),
        ("duration_micros", 7, FIELD.TYPE_UINT64, False),
        ("attr", 10, "AttributeProto", True),
    ],
}


def messages():
    """The classes of the messages."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg")
    file.syntax = "proto3"
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            one = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = FIELD.TYPE_MESSAGE, f".ChakraProtoMsg.{kind}"
            else:
                one.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    of = lambda name: pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")
    return {name: message_factory.GetMessageClass(of(name)) for name in SCHEMA}


MESSAGES = messages()


def parts(content):
    """The messages of a file, each after its length."""
    place = 0
    while place < len(content):
        length = shift = 0
        while True:
            byte = content[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        assert place + length <= len(content), "a message is longer than the file"
        yield content[place : place + length]
        place += length


def parsed(name, content):
    message = MESSAGES[name].FromString(content)
    unknown = message.SerializeToString(deterministic=True)
    assert len(unknown) <= len(content)
    return message


class Node:
    """A node of a rank."""

    def __init__(self, message):
        self.id, self.name, self.kind = message.id, message.name, KINDS[message.type]
        self.waits = list(message.data_deps)
        self.values = {}
        for attribute in message.attr:
            field = FIELDS[attribute.name]
            others = {of.name for of, _ in attribute.ListFields()} - {"name", field}
            assert not others, f"{attribute.name} is read from {field}, and stands in {others}"
            value = getattr(attribute, field)
            self.values[attribute.name] = list(value.values) if field == "bool_list" else value

    def __getitem__(self, name):
        return self.values[name]


def read(path):
    """The nodes of a trace: numbered from 0 on, each after what it waits for."""
    first, *rest = parts(path.read_bytes())
    assert parsed("GlobalMetadata", first).version
    nodes = [Node(parsed("Node", part)) for part in rest]
    for number, node in enumerate(nodes):
        assert node.id == number and all(other < number for other in node.waits), path
    return nodes


class Simulation:
    """Runs the traces of all ranks in the order of their nodes as far as these have to wait."""

    def __init__(self, folder):
        (groups,) = folder.glob("*.groups.json")
        self.groups = json.loads(groups.read_text())
        ranks = len(list(folder.glob("*.et")))
        name = groups.name.removesuffix(".groups.json")
        self.traces = [read(folder / f"{name}.{rank}.et") for rank in range(ranks)]
        self.counts = Counter(node.kind for trace in self.traces for node in trace)

    def run(self):
        sent, meetings = {}, defaultdict(list)
        ended = [[False] * len(trace) for trace in self.traces]
        open_nodes = {(rank, node.id) for rank, trace in enumerate(self.traces) for node in trace}
        ready = self.ready(ended, open_nodes)
        numbers = Counter()
        while ready:
            for rank, number in sorted(ready):
                node = self.traces[rank][number]
                if node.kind == "collective":
                    key = (node["pg_name"], numbers[rank, node["pg_name"]])
                    assert rank in self.groups[node["pg_name"]], "a rank of another group"
                    numbers[rank, node["pg_name"]] += 1
                    meetings[key].append((rank, node))
                    open_nodes.discard((rank, number))
                    self.meet(meetings[key], self.groups[node["pg_name"]], ended)
                elif node.kind == "receive":
                    key = (node["comm_src"], rank, node["comm_tag"])
                    if key in sent:
                        assert sent.pop(key) == node["comm_size"], "a message of another size"
                        self.end(rank, number, ended, open_nodes)
                else:
                    if node.kind == "send":
                        key = (rank, node["comm_dst"], node["comm_tag"])
                        assert key not in sent, "two messages with one tag"
                        sent[key] = node["comm_size"]
                    self.end(rank, number, ended, open_nodes)
            before, ready = ready, self.ready(ended, open_nodes)
            waiting = all(self.traces[r][n].kind == "receive" for r, n in ready)
            if ready == before and waiting and not any(
                (self.traces[r][n]["comm_src"], r, self.traces[r][n]["comm_tag"]) in sent
                for r, n in ready
            ):
                break
        left = sum(not all(of) for of in ended)
        assert left == 0, f"{left} ranks wait for ever"
        assert not sent, "a message that nobody receives"

    def ready(self, ended, open_nodes):
        """Nodes that wait for nothing more."""
        return {
            (rank, number)
            for rank, number in open_nodes
            if all(ended[rank][other] for other in self.traces[rank][number].waits)
        }

    def end(self, rank, number, ended, open_nodes):
        ended[rank][number] = True
        open_nodes.discard((rank, number))

    def meet(self, there, group, ended):
        """A collective ends when all ranks of its group are at it, with the same sizes."""
        if len(there) < len(group):
            return
        kinds = {(node["comm_type"], node["comm_size"]) for _, node in there}
        assert len(kinds) == 1, "ranks of a group are at different collectives"
        for rank, node in there:
            ended[rank][node.id] = True


def main(folders):
    for folder in folders:
        simulation = Simulation(pathlib.Path(folder))
        simulation.run()
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(simulation.counts.items()))
        print(f"equal {folder}: {len(simulation.traces)} ranks, {counts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
