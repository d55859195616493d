import { expect, test } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { measureExchangeSpeed } from '../../../src/parallel/costs/measureExchangeSpeed.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link, type LinkDescription } from '../../../src/transport/link.ts';
import { BaseLink } from '../../../src/transport/linkEnd.ts';
import { VirtualClock } from '../../virtualClock.ts';

const clock = new VirtualClock();
const SERVER_BYTES_PER_MS = 1000;

/** One end of a link. Frames of all links with the same line leave one after the other. */
class LineLink extends BaseLink {
  peer: LineLink | null = null;
  readonly #line: { freeAt: number } | null;

  /** @param line the server's line; `null` for a link that takes no time. */
  constructor(line: { freeAt: number } | null) {
    super();
    this.#line = line;
  }

  describe(): Promise<LinkDescription> {
    return Promise.resolve(UNKNOWN_LINK_DESCRIPTION);
  }

  protected transmit(frame: ArrayBuffer): void {
    const copy = frame.slice(0);
    const line = this.#line ?? { freeAt: 0 };
    const ms = this.#line === null ? 0 : copy.byteLength / SERVER_BYTES_PER_MS;
    line.freeAt = Math.max(clock.now(), line.freeAt) + ms;
    clock.after(line.freeAt - clock.now(), () => {
      this.left(copy.byteLength);
      this.peer?.arrived(copy);
    });
  }

  protected release(): void {
    this.peer = null;
  }
}

/** Measures a ring of 4 ranks, in which this number of links goes through one server. */
async function bytesPerMs(served: number): Promise<number> {
  const line = { freeAt: 0 };
  let links = 0;
  const createPair = (): [Link, Link] => {
    const own = links++ < served ? line : null;
    const [one, other] = [new LineLink(own), new LineLink(own)];
    [one.peer, other.peer] = [other, one];
    return [one, other];
  };
  const { meshes } = createMeshes(4, createPair);
  const groups = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
  const [figures] = await Promise.all(groups.map((group) => measureExchangeSpeed(group, 2 ** 18, clock)));
  for (const group of groups) group.destroy();
  return figures!.bytesPerMs;
}

test('measured links share the rate of the server', async () => {
  const rates = [await bytesPerMs(1), await bytesPerMs(2), await bytesPerMs(4)];
  clock.stop();
  const used = [1, 2, 4].map((links, i) => (links * rates[i]!) / SERVER_BYTES_PER_MS);
  expect(used.map((share) => Math.round(share * 10) / 10)).toEqual([1, 1, 1]);
});
