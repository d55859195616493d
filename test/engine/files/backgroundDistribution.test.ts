/** Files that arrive while the run trains. Memory links. */
import { expect, test, vi } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { FileDistribution } from '../../../src/engine/files/fileDistribution.ts';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import { wholeFilesSliceOrder, type FileSliceOrder } from '../../../src/engine/files/fileSliceOrder.ts';
import type { EngineEvent, EventOf } from '../../../src/protocol/events.ts';
import { FILE_SLICE_BYTES } from '../../../src/protocol/frame.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';
import { seededPermutation } from '../../../src/util/rng.ts';
import { gatedLinks } from './gatedLinks.ts';
import { changingFile, fileOf } from './testFiles.ts';

const SLICES = 20;
const OPENING = 3;
const ORDER: FileSliceOrder = { slices: seededPermutation(SLICES, 5), opening: OPENING };
const OF_OPENING = Array.from(ORDER.slices.subarray(0, OPENING));
const TOTAL = SLICES * FILE_SLICE_BYTES;

class Rank {
  readonly shared: SharedFileSlices;
  readonly distribution: FileDistribution;
  /** Slices in the order of their arrival. */
  readonly put: number[] = [];
  readonly events: EventOf<'distribution'>[] = [];
  readonly name: string;
  /** How often this rank has opened the files to determine the order. */
  opened = 0;

  constructor(name: string, shared: SharedFileSlices) {
    this.name = name;
    this.shared = shared;
    this.distribution = new FileDistribution({
      shared,
      clock: systemClock,
      emit: this.emit,
      orderOf: () => {
        this.opened++;
        return Promise.resolve(ORDER);
      },
    });
    const put = shared.put.bind(shared);
    shared.put = (slice, bytes) => {
      const isStored = put(slice, bytes);
      if (isStored) this.put.push(slice);
      return isStored;
    };
  }

  readonly emit = (event: EngineEvent): void => void (event.type === 'distribution' && this.events.push(event));

  get held(): number[] {
    return Array.from({ length: SLICES }, (_, slice) => slice).filter((slice) => this.shared.has(slice));
  }
}

async function host(): Promise<Rank> {
  return new Rank('host', await SharedFileSlices.chosen([fileOf('pets.zip', TOTAL)], () => {}));
}

const guest = (name: string, { shared }: Rank): Rank => new Rank(name, SharedFileSlices.awaited(shared.manifest));

let generation = 0;

/** Opens a generation whose links carry at most `most` slices each, until its gates are opened. */
function open(ranks: readonly Rank[], most = Infinity, damage: (frame: number) => boolean = () => false) {
  let slices = 0;
  const { createPair, open: openLinks } = gatedLinks(most, (frame) => {
    if (damage(slices++)) new Uint8Array(frame)[frame.byteLength - 1]! ^= 1;
  });
  const world = createMeshes(ranks.length, createPair, ++generation);
  const groups = world.meshes.map((mesh) => new ProcessGroup(mesh, { timeoutMs: 4000 }));
  const members = ranks.map(({ name }) => ({ member: name, name, device: null, browser: 0, rank: null }));
  return {
    groups,
    openLinks,
    run: () => Promise.all(ranks.map(({ distribution }, rank) => distribution.run(groups[rank]!, members))),
    feed: () =>
      Promise.all(ranks.map(({ distribution, emit }, rank) => distribution.feed(groups[rank]!, members, emit))),
    /** Ends the generation because a rank is gone: its links are closed. */
    lose: (rank: number) => world.links[rank]!.forEach((link) => link.close()),
    close: () => {
      for (const { distribution } of ranks) distribution.leave();
      for (const group of groups) group.destroy();
      world.close();
    },
  };
}

const until = (isTrue: () => boolean): Promise<void> => vi.waitFor(() => expect(isTrue()).toBe(true), 5000);
const areWhole = (ranks: readonly Rank[]) => (): boolean => ranks.every(({ shared }) => shared.isWhole);

test('the run begins when all ranks have the slices that open the data; others follow in the order of their use', async () => {
  const first = await host();
  const ranks = [first, guest('ann', first), guest('ben', first)];
  const world = open(ranks, OPENING + 1);
  await world.run();
  for (const { distribution } of ranks) expect(distribution.canOpen).toBe(true);
  await until(() => ranks[2]!.put.length === OPENING + 1);
  expect(ranks[2]!.events.at(-1)!.bytesPerRank[0]).toBe(TOTAL);
  expect(ranks.every(({ shared }) => shared.isWhole)).toBe(false);
  // Collectives of the run do not wait for slices.
  const sums = await Promise.all(world.groups.map((group) => group.allReduce(Float32Array.of(1))));
  expect(sums.map(([sum]) => sum)).toEqual([3, 3, 3]);
  const read = ranks[2]!.shared.stored()[0]!.place.file.range(0, TOTAL);
  world.openLinks();
  expect((await read).size).toBe(TOTAL);
  await until(areWhole(ranks));
  for (const { put } of ranks.slice(1)) expect(put).toEqual(Array.from(ORDER.slices));
  await until(() => ranks.every(({ events }) => events.at(-1)!.bytesPerRank.every((bytes) => bytes === TOTAL)));
  world.close();
});

test('a newcomer in the middle of a distribution receives from its feeder what the feeder has, and the rest in the ring', async () => {
  const first = await host();
  const ann = guest('ann', first);
  const world = open([first, ann], OPENING + 4);
  await world.run();
  await until(() => ann.put.length === OPENING + 4);
  const ben = guest('ben', first);
  const feed = open([ann, ben]);
  await feed.feed();
  expect(ben.put).toEqual(Array.from(ORDER.slices.subarray(0, OPENING + 4)));
  expect(ben.distribution.canOpen).toBe(true);
  feed.groups.forEach((group) => group.destroy());
  world.close();
  const next = open([first, ben, ann]);
  await next.run();
  await until(areWhole([ann, ben]));
  expect([ann.put, ben.put]).toEqual([Array.from(ORDER.slices), Array.from(ORDER.slices)]);
  next.close();
});

test('a feeder that has all files but no slice order sends slices in the order of the files, without opening the files', async () => {
  const first = await host();
  const ann = guest('ann', first);
  const feed = open([first, ann]);
  await feed.feed();
  expect(ann.put).toEqual(Array.from(wholeFilesSliceOrder(SLICES).slices));
  expect(first.opened).toBe(0);
  feed.groups.forEach((group) => group.destroy());
  const next = open([first, ann]);
  await next.run();
  expect(first.opened).toBe(0);
  next.close();
});

test('a newcomer that was not fed begins with the slices that open the data, from ranks that have only a part', async () => {
  const first = await host();
  const ann = guest('ann', first);
  const world = open([first, ann], OPENING + 4);
  await world.run();
  await until(() => ann.put.length === OPENING + 4);
  world.close();
  const ben = guest('ben', first);
  const next = open([ben, first, ann], OPENING);
  await next.run();
  expect(ben.held).toEqual(OF_OPENING.toSorted((a, b) => a - b));
  next.openLinks();
  await until(areWhole([ann, ben]));
  next.close();
});

test('if the host is lost in the middle, reads that wait fail with the generation, and the next generation names what is missing', async () => {
  const first = await host();
  const others = [guest('ann', first), guest('ben', first)];
  const world = open([first, ...others], OPENING + 4);
  await world.run();
  await until(() => others[1]!.put.length === OPENING + 4);
  const read = others[0]!.shared.stored()[0]!.place.file.range(0, TOTAL);
  world.lose(0);
  await expect(read).rejects.toBeInstanceOf(PeerGoneError);
  world.close();
  const held = others.map((rank) => rank.held);
  const next = open(others);
  await expect(next.run()).rejects.toThrow(
    /^host had all files and left\. No rank has all of pets\.zip: 13 of 20 slices are missing/,
  );
  expect(others.map((rank) => rank.held)).toEqual(held);
  next.close();
});

test('if the generation fails, reads reject with its error, and no rank tells the others that the distribution has failed, too', async () => {
  const first = await host();
  const ranks = [first, guest('ann', first), guest('ben', first)];
  const world = open(ranks, OPENING + 1);
  await world.run();
  await until(() => ranks[2]!.put.length === OPENING + 1);
  const reads = ranks.slice(1).map(({ shared }) => shared.stored()[0]!.place.file.range(0, TOTAL));
  const abort = vi.spyOn(ProcessGroup.prototype, 'abort');
  world.groups[1]!.abort(new Error('Ann has stopped.'));
  for (const read of await Promise.allSettled(reads)) {
    expect(read).toMatchObject({ reason: { message: expect.stringContaining('Ann has stopped.') as string } });
  }
  expect(abort).toHaveBeenCalledTimes(1);
  abort.mockRestore();
  world.close();
});

test('if a rank is lost in the middle, the next generation sends the rest', async () => {
  const first = await host();
  const [ann, ben] = [guest('ann', first), guest('ben', first)];
  const world = open([first, ann, ben], OPENING + 4);
  await world.run();
  await until(() => ben.put.length === OPENING + 4);
  world.lose(1);
  await Promise.all([world.groups[0]!.failed, world.groups[2]!.failed]);
  world.close();
  const next = open([first, ben]);
  await next.run();
  await until(() => ben.shared.isWhole);
  expect(ben.put).toEqual(Array.from(ORDER.slices));
  next.close();
});

test('a slice that arrives damaged while the run trains is sent again', async () => {
  const first = await host();
  const ranks = [first, guest('ann', first), guest('ben', first)];
  const world = open(ranks, Infinity, (frame) => frame === 50);
  await world.run();
  await until(areWhole(ranks));
  expect(world.groups.map(({ failure }) => failure)).toEqual([null, null, null]);
  world.close();
});

test('a slice that arrives damaged three times while the run trains ends the run on all ranks', async () => {
  const first = await host();
  const ann = guest('ann', first);
  const world = open([first, ann], Infinity, (frame) => frame >= 2 * (OPENING + 4));
  await world.run();
  const read = ann.shared.stored()[0]!.place.file.range(0, TOTAL);
  await expect(read).rejects.toThrow(/arrived damaged 3 times from rank 0/);
  const errors = await Promise.all(world.groups.map(({ failed }) => failed));
  for (const { message } of errors) expect(message).toMatch(/arrived damaged 3 times from rank 0/);
  world.close();
});

test('a file that changes on the host while the run trains ends the run on all ranks, after they have received its other slices', async () => {
  const { file, change } = changingFile('pets.zip', TOTAL);
  const first = new Rank('host', await SharedFileSlices.chosen([file], () => {}));
  const ann = guest('ann', first);
  // The beginning of the file cannot be read any more.
  expect(OF_OPENING).not.toContain(0);
  const world = open([first, ann], OPENING);
  await world.run();
  change();
  world.openLinks();
  for (const { message } of await Promise.all(world.groups.map(({ failed }) => failed))) {
    expect(message).toMatch(/No rank has all of pets\.zip: 1 of 20 slices are missing/);
  }
  expect(first.shared.spoilt).toEqual(['pets.zip']);
  expect(ann.held).toHaveLength(SLICES - 1);
  world.close();
});
