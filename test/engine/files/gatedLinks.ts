/** Memory links that hold back slices of distributed files, as slow lines do. */
import { FRAME_HEADER_BYTES, FrameKind, OpCode, readFrameHeader } from '../../../src/protocol/frame.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { wrap } from '../membership/links.ts';

/** Holds back the slices of a link after the first `most` ones. */
class Gate {
  readonly #link: Link;
  #most: number;
  /** The slices that may pass. A slice has several frames. */
  readonly #passing = new Set<string>();
  #held: { slice: string; frame: ArrayBuffer; sent: () => void }[] = [];

  constructor(link: Link, most: number) {
    this.#link = link;
    this.#most = most;
  }

  open(): void {
    this.#most = Infinity;
    const held = this.#held;
    this.#held = [];
    for (const { slice, frame, sent } of held) void this.send(slice, frame).then(sent);
  }

  send(slice: string, frame: ArrayBuffer): Promise<void> {
    if (this.#passing.size < this.#most) this.#passing.add(slice);
    if (this.#passing.has(slice)) return this.#link.send(frame);
    return new Promise((sent) => this.#held.push({ slice, frame, sent }));
  }
}

/**
 * Returns links of which each carries `most` slices, until `open` is called. Other frames pass.
 *
 * @param onslice called with each frame of a slice.
 */
export function gatedLinks(
  most: number,
  onslice: (frame: ArrayBuffer) => void = () => {},
): { createPair: () => [Link, Link]; open: () => void } {
  const gates: Gate[] = [];
  const gated = (link: Link): Link => {
    const gate = new Gate(link, most);
    gates.push(gate);
    return wrap(link, {
      send: (frame) => {
        const { kind, op, count, group, seq } = readFrameHeader(frame);
        const isSlice = kind === FrameKind.DATA && op === OpCode.SEND && count > 0;
        if (!isSlice || frame.byteLength === FRAME_HEADER_BYTES) return link.send(frame);
        onslice(frame);
        return gate.send(`${group}/${seq}`, frame);
      },
    });
  };
  return {
    createPair: () => {
      const [one, other] = createMemoryLinkPair();
      return [gated(one), gated(other)];
    },
    open: () => gates.forEach((gate) => gate.open()),
  };
}
