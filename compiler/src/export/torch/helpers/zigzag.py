def zigzag(index, size, pairs):
    """The positions of elements of a sequence whose blocks stand in pairs, from both ends."""
    block = size // (2 * pairs)
    number, within = index // block, index % block
    pair = number // 2
    stands = torch.where(number % 2 == 0, pair, 2 * pairs - 1 - pair)
    return stands * block + within
