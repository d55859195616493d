/** The files of one rank are distributed to all ranks over memory links. */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import { FileDistribution } from '../../../src/engine/files/fileDistribution.ts';
import { wholeFilesSliceOrder, type FileSliceOrder } from '../../../src/engine/files/fileSliceOrder.ts';
import type { EngineEvent, EventOf } from '../../../src/protocol/events.ts';
import { FRAME_HEADER_BYTES, FrameKind, OpCode, readFrameHeader } from '../../../src/protocol/frame.ts';
import { FILE_SLICE_BYTES } from '../../../src/protocol/frame.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { systemClock, type Clock } from '../../../src/util/clock.ts';
import { asError, TimeoutError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';
import { wrap } from '../membership/links.ts';
import { changingFile, contentOf, fileOf } from './testFiles.ts';

interface Rank {
  readonly name: string;
  readonly shared: SharedFileSlices;
  readonly spreading: FileDistribution;
  readonly events: EventOf<'distribution'>[];
}

function rankOf(
  name: string,
  shared: SharedFileSlices,
  clock: Clock = systemClock,
  orderOf: (count: number) => FileSliceOrder = wholeFilesSliceOrder,
): Rank {
  const events: Rank['events'] = [];
  const emit = (event: EngineEvent): void => void (event.type === 'distribution' && events.push(event));
  return {
    name,
    shared,
    events,
    spreading: new FileDistribution({ shared, clock, emit, orderOf: () => Promise.resolve(orderOf(shared.count)) }),
  };
}

/** Creates ranks. The first rank has the files, and the other ranks have nothing. */
async function ranksWith(files: readonly File[], n: number): Promise<Rank[]> {
  const source = await SharedFileSlices.chosen(files, () => {});
  const others = Array.from({ length: n - 1 }, (_, i) =>
    rankOf(`m${i + 1}`, SharedFileSlices.awaited(source.manifest)),
  );
  return [rankOf('host', source), ...others];
}

let generation = 0;

interface Fault {
  /**
   * Returns whether a link damages a frame that contains a slice. `link` is the rank that sends
   * over it to the next rank.
   */
  damages?: (link: number, frame: number) => boolean;
  /**
   * Closes this rank's links instead of the frame with this number. Sent and received frames are
   * counted together.
   */
  dies?: { rank: number; frame: number };
}

const isOfSlice = (frame: ArrayBuffer): boolean => {
  const { kind, op, count } = readFrameHeader(frame);
  return kind === FrameKind.DATA && op === OpCode.SEND && count > 0 && frame.byteLength > FRAME_HEADER_BYTES;
};

/**
 * Makes ranks distribute their files in one generation. @returns the errors by rank, and the bytes
 * of slices that were sent over links.
 */
async function runGeneration(
  ranks: readonly Rank[],
  { damages = () => false, dies }: Fault = {},
): Promise<{ errors: (Error | null)[]; sliceBytes: number }> {
  const n = ranks.length;
  const mine: Link[] = [];
  let [pairs, frames, sliceBytes] = [0, 0, 0];
  const pass = (): void => {
    if (frames++ === dies?.frame) for (const link of mine) link.close();
  };
  const { meshes, close } = createMeshes(
    n,
    () => {
      const first = pairs++;
      const pair: [Link, Link] = createMemoryLinkPair();
      for (const [end, link] of pair.entries()) {
        const rank = first < n ? (first + end) % n : -1;
        let slices = 0;
        if (rank === dies?.rank) mine.push(link);
        pair[end] = wrap(link, {
          send: (frame) => {
            if (rank === dies?.rank) pass();
            if (isOfSlice(frame)) {
              sliceBytes += frame.byteLength - FRAME_HEADER_BYTES;
              if (damages(rank, slices++)) new Uint8Array(frame)[frame.byteLength - 1]! ^= 1;
            }
            return link.send(frame);
          },
          receive: (frame, handler) => {
            if (rank === dies?.rank) pass();
            handler(frame);
          },
        });
      }
      return pair;
    },
    ++generation,
  );
  const members = ranks.map(({ name }) => ({ member: name, name, device: null, browser: 0, rank: null }));
  const groups = meshes.map((mesh) => new ProcessGroup(mesh, { timeoutMs: 4000 }));
  const errors = await Promise.all(
    ranks.map(async ({ spreading }, rank) => {
      try {
        await spreading.run(groups[rank]!, members);
        return null;
      } catch (error) {
        groups[rank]!.abort(asError(error));
        return asError(error);
      }
    }),
  );
  for (const group of groups) group.destroy();
  close();
  return { errors, sliceBytes };
}

const digestsOf = async ({ shared }: Rank): Promise<string[]> =>
  Promise.all(shared.files().map(async (file) => `${file.name} ${await contentOf(file)}`));

async function expectAllWhole(ranks: readonly Rank[]): Promise<void> {
  const expected = await digestsOf(ranks[0]!);
  for (const rank of ranks) expect(await digestsOf(rank)).toEqual(expected);
}

const NONE = (n: number): null[] => Array.from({ length: n }, () => null);

describe('files of one rank', () => {
  test.each([
    ['of an odd size', [3 * FILE_SLICE_BYTES + 1234]],
    ['of one byte', [1]],
    ['without bytes', [0]],
    ['of one slice', [FILE_SLICE_BYTES]],
    ['of several sizes', [FILE_SLICE_BYTES + 1, 0, 1, 20 * FILE_SLICE_BYTES]],
  ])('%s arrive at all ranks, and every rank receives every byte once', async (_, sizes) => {
    const ranks = await ranksWith(
      sizes.map((size, i) => fileOf(`f${i}`, size, i + 1)),
      4,
    );
    const { errors, sliceBytes } = await runGeneration(ranks);
    expect(errors).toEqual(NONE(4));
    await expectAllWhole(ranks);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    expect(sliceBytes).toBe(3 * total);
    for (const { events } of ranks) {
      expect(events[0]).toMatchObject({ total, bytesPerRank: [total, 0, 0, 0] });
      expect(events.at(-1)).toMatchObject({ total, bytesPerRank: [total, total, total, total] });
    }
  });

  test('arrive completely at the second of two ranks, which can then continue alone', async () => {
    const ranks = await ranksWith([fileOf('a', 5 * FILE_SLICE_BYTES)], 2);
    expect((await runGeneration(ranks)).errors).toEqual([null, null]);
    await expectAllWhole(ranks);
    expect((await runGeneration([ranks[1]!])).errors).toEqual([null]);
  });

  test('are sent to a rank that joins, and not again to ranks that have the files', async () => {
    const ranks = await ranksWith([fileOf('a', 5 * FILE_SLICE_BYTES)], 3);
    await runGeneration(ranks);
    expect((await runGeneration(ranks)).sliceBytes).toBe(0);
    const joiner = rankOf('joiner', SharedFileSlices.awaited(ranks[0]!.shared.manifest));
    // This also works if the host has left.
    const grown = [ranks[1]!, joiner, ranks[2]!];
    const { errors, sliceBytes } = await runGeneration(grown);
    expect(errors).toEqual(NONE(3));
    expect(sliceBytes).toBe(5 * FILE_SLICE_BYTES);
    await expectAllWhole(grown);
  });
});

describe('a damaged slice', () => {
  test('is requested again, from another rank if possible', async () => {
    const ranks = await ranksWith([fileOf('a', 6 * FILE_SLICE_BYTES)], 4);
    const { errors } = await runGeneration(ranks, { damages: (link, frame) => link === 1 && frame === 3 });
    expect(errors).toEqual(NONE(4));
    await expectAllWhole(ranks);
  });

  test('leads to an error that names the sender if the slice arrives damaged three times', async () => {
    const ranks = await ranksWith([fileOf('a', 2 * FILE_SLICE_BYTES)], 2);
    const { errors } = await runGeneration(ranks, { damages: (link) => link === 0 });
    expect(errors[1]!.message).toMatch(/^Slice \d of 2 of the files arrived damaged 3 times from rank 0/);
    expect(errors[0]).not.toBeNull();
    expect(ranks[1]!.shared.isWhole).toBe(false);
  });
});

describe('when ranks leave,', () => {
  const SLICES = 24;

  test('the next generation sends only the slices that are missing, even to a rank that joins', async () => {
    for (const frame of [90, 130]) {
      const ranks = await ranksWith([fileOf('a', SLICES * FILE_SLICE_BYTES - 99)], 4);
      const { errors } = await runGeneration(ranks, { dies: { rank: 2, frame } });
      expect(errors.every((error) => error !== null)).toBe(true);
      const joiner = rankOf('joiner', SharedFileSlices.awaited(ranks[0]!.shared.manifest));
      const rest = [ranks[0]!, ranks[1]!, ranks[3]!, joiner];
      const had = rest.reduce((sum, { shared }) => sum + shared.heldBytes, 0);
      expect(had).toBeGreaterThan(ranks[0]!.shared.totalBytes);
      const { errors: later, sliceBytes } = await runGeneration(rest);
      expect(later).toEqual(NONE(4));
      await expectAllWhole(rest);
      expect(sliceBytes).toBe(4 * ranks[0]!.shared.totalBytes - had);
    }
  });

  test('among them the rank that had all files, the distribution succeeds if the others together have every slice', async () => {
    const ranks = await ranksWith([fileOf('a', SLICES * FILE_SLICE_BYTES)], 3);
    const [host, first, second] = ranks as [Rank, Rank, Rank];
    // A distribution that broke off may leave this situation: each rank has the slices that the
    // other lacks.
    first.shared.setDigests(host.shared.digests!);
    second.shared.setDigests(host.shared.digests!);
    for (let slice = 0; slice < SLICES; slice++) {
      const { shared } = slice % 3 === 0 ? first : second;
      shared.put(slice, (await host.shared.read(slice))!);
    }
    const { errors, sliceBytes } = await runGeneration([first, second]);
    expect(errors).toEqual([null, null]);
    expect(sliceBytes).toBe(SLICES * FILE_SLICE_BYTES);
    await expectAllWhole([host, first, second]);
  });

  test('and some slices are on no remaining rank, the error names the rank that had all files, and other slices are kept', async () => {
    const ranks = await ranksWith([fileOf('train.bin', SLICES * FILE_SLICE_BYTES)], 3);
    await runGeneration(ranks, { dies: { rank: 0, frame: 40 } });
    const [host, ...others] = ranks as [Rank, ...Rank[]];
    const held = others.map(({ shared }) => shared.heldBytes);
    expect(held[0]).toBeGreaterThan(0);
    const { errors } = await runGeneration(others);
    for (const error of errors) {
      expect(error!.message).toMatch(
        /^host had all files and left\. No rank has all of train\.bin: \d+ of 24 slices are/,
      );
    }
    expect(others.map(({ shared }) => shared.heldBytes)).toEqual(held);
    const { sliceBytes } = await runGeneration([host, ...others]);
    await expectAllWhole(ranks);
    expect(sliceBytes).toBeLessThan(2 * SLICES * FILE_SLICE_BYTES);
  });
});

test('the distribution fails on every rank if none has the files', async () => {
  const [, ...others] = await ranksWith([fileOf('train.bin', 10)], 3);
  for (const error of (await runGeneration(others)).errors) {
    expect(error!.message).toMatch(/^No rank has all of train\.bin: 1 of 1 slices are missing/);
  }
});

test('a file that changed after it was chosen is named, and its unchanged slices are distributed', async () => {
  const { file, change } = changingFile('a', 20 * FILE_SLICE_BYTES);
  const ranks = await ranksWith([file], 2);
  change();
  const { errors } = await runGeneration(ranks);
  for (const error of errors) expect(error!.message).toMatch(/No rank has all of a: 1 of 20 slices are missing/);
  expect(errors[0]!.message).toMatch(/^Files that were changed, moved or deleted after they were chosen here: a\. /);
  expect(ranks[1]!.shared.heldBytes).toBe(19 * FILE_SLICE_BYTES);
});

test('the distribution ends with a timeout on every rank if one rank hangs', async () => {
  const source = await SharedFileSlices.chosen([fileOf('a', 3 * FILE_SLICE_BYTES)], () => {});
  source.read = () => new Promise(() => {});
  const clock = new ManualClock();
  const ranks = [rankOf('host', source, clock), rankOf('guest', SharedFileSlices.awaited(source.manifest), clock)];
  const over = new AbortController();
  const run = runGeneration(ranks).finally(() => over.abort());
  while (!over.signal.aborted) {
    clock.advance(500);
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  const { errors } = await run;
  for (const error of errors) expect(error).toBeInstanceOf(TimeoutError);
  expect(errors.map((error) => error!.message).join()).toMatch(
    /no rank has received a slice of the files for 60 s\. Slices from the left neighbour are missing on rank 1\./,
  );
  expect(clock.now()).toBeGreaterThanOrEqual(60_000);
});
