/**
 * Random programs of collectives and messages. All ranks make the same calls, and do not wait for a
 * call to end before the next. Every result is compared with a direct computation. One rank may
 * have trouble during the program. The clock advances only when no frame moves, so a seed always
 * gives the same program run.
 */
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { createMeshes, type TestWorld } from '../../src/testing/index.ts';
import { asError, PeergradError } from '../../src/util/errors.ts';
import { createRng, mixSeed, type Rng } from '../../src/util/rng.ts';
import { delayedLinks } from '../conformance/delayedLink.ts';
import { expectEqual } from '../conformance/expect.ts';
import { ManualClock } from '../manualClock.ts';

/** Deadline of every op, on a clock that the test moves. */
const TIMEOUT_MS = 1000;
/**
 * How long a late rank is blocked. It continues during the inquiry of the other ranks, which takes
 * half of the deadline.
 */
const LATE_MS = 1.25 * TIMEOUT_MS;
/**
 * Time after which every op must have ended. Ops of a late rank end after their own deadline and
 * two inquiries.
 */
const MAX_WAIT_MS = LATE_MS + 2 * TIMEOUT_MS;
/**
 * No frame is in flight after this number of turns of the event loop without a frame. A delayed
 * link needs a dozen turns for one frame.
 */
const QUIET_TURNS = 30;

/** Input of an op on one rank. */
interface Scene {
  readonly call: Call;
  readonly group: ProcessGroup;
  /** Global rank. */
  readonly self: number;
  /** Global rank of the root, for ops with a root. */
  readonly root: number;
  /** Returns the tensor that a rank (global) contributes. */
  readonly of: (rank: number, length?: number) => Float32Array;
  /** Returns the sum of all ranks' tensors. */
  readonly sum: (length?: number) => Float32Array;
  /** @throws if the result on this rank is wrong. */
  readonly check: (got: unknown, expected: unknown) => void;
}

type Op = (scene: Scene) => Promise<unknown>;

/** Each function issues its op at once, and resolves once the result is checked. */
const OPS: Readonly<Record<string, Op>> = {
  async allReduce({ group, self, of, sum, check }) {
    check(await group.allReduce(of(self)), sum());
  },
  async allReduceAfter({ group, self, of, sum, check }) {
    const tensor = new Float32Array(of(self).length);
    // Ranks read their tensors for different times.
    const read = async (): Promise<void> => {
      for (let turn = 0; turn < 3 * self; turn++) await new Promise((resolve) => setImmediate(resolve));
      tensor.set(of(self));
    };
    check(await group.allReduce(tensor, { after: read() }), sum());
  },
  async allReduceMax({ group, self, of, check }) {
    const expected = new Int32Array(of(self).length).fill(-100);
    for (const tensor of group.ranks.map((rank) => of(rank))) {
      tensor.forEach((value, i) => (expected[i] = Math.max(expected[i]!, value)));
    }
    check(await group.allReduce(Int32Array.from(of(self)), { op: ReduceOp.MAX }), expected);
  },
  async allReduceCoalesced({ group, self, of, sum, check }) {
    const work = group.allReduceCoalesced([of(self), Int32Array.from(of(self, 3)), of(self, 1)]);
    check(await work, [sum(), Int32Array.from(sum(3)), sum(1)]);
  },
  async broadcast({ call, group, self, root, of, check }) {
    check(await group.broadcast(of(self), root, call.isVariant ? { algorithm: 'direct' } : {}), of(root));
  },
  async reduce({ call, group, self, root, of, sum, check }) {
    const reduced = await group.reduce(of(self), root, call.isVariant ? { algorithm: 'direct' } : {});
    if (self === root) check(reduced, sum());
  },
  async allGather({ call, group, self, of, check }) {
    const sizes = group.ranks.map((rank) => unevenSize(call, rank));
    const parts = group.ranks.map((rank, i) => of(rank, sizes[i]));
    check(await group.allGather(of(self, unevenSize(call, self)), { sizes }), parts);
  },
  async gather({ call, group, self, root, of, check }) {
    const sizes = group.ranks.map((rank) => unevenSize(call, rank));
    const parts = group.ranks.map((rank, i) => of(rank, sizes[i]));
    const gathered = await group.gather(of(self, unevenSize(call, self)), root, { sizes });
    if (self === root) check(gathered, parts);
  },
  async scatter({ call, group, self, root, of, check }) {
    const parts = self === root ? group.ranks.map((rank) => of(rank)) : null;
    check(await group.scatter(new Float32Array(call.length), root, parts), of(self));
  },
  async reduceScatter({ call, group, self, of, sum, check }) {
    const part = Math.floor(call.length / group.worldSize);
    const whole = part * group.worldSize;
    const mine = sum(whole).slice(group.rank * part, (group.rank + 1) * part);
    check(await group.reduceScatter(of(self, whole)), mine);
  },
  async allToAll({ call, group, self, of, check }) {
    const inputSplits = group.ranks.map((to) => splitSize(call, self, to));
    const outputSplits = group.ranks.map((from) => splitSize(call, from, self));
    const parts = group.ranks.map((from) => {
      const sizes = group.ranks.map((to) => splitSize(call, from, to));
      const start = total(sizes.slice(0, group.rank));
      return [...of(from, total(sizes)).subarray(start, start + (sizes[group.rank] ?? 0))];
    });
    check(
      await group.allToAll(of(self, total(inputSplits)), { inputSplits, outputSplits }),
      Float32Array.from(parts.flat()),
    );
  },
  async allGatherObject({ call, group, self, check }) {
    const objectOf = (rank: number) => ({ rank, text: 'y'.repeat((rank * call.draw) % 3000) });
    check(await group.allGatherObject(objectOf(self)), group.ranks.map(objectOf));
  },
  async broadcastObject({ call, group, self, root, check }) {
    const value = { number: call.number, text: 'z'.repeat(call.length) };
    check(await group.broadcastObject(self === root ? value : undefined, root), value);
  },
  async barrier({ group }) {
    await group.barrier();
  },
  async monitoredBarrier({ group }) {
    await group.monitoredBarrier();
  },
  /**
   * Every member sends to the member `distance` places further, and receives from the one
   * `distance` places before, or from any rank.
   */
  async message({ call, group, self, of, check }) {
    const { rank, ranks, worldSize: n } = group;
    if (rank < 0 || n < 2) return;
    const distance = 1 + (call.draw % (n - 1));
    const from = ranks[(rank - distance + n) % n]!;
    const into = new Float32Array(call.length);
    const tag = call.number;
    const [sent, received] = await Promise.allSettled([
      group.isend(of(self), ranks[(rank + distance) % n]!, { tag }),
      group.irecv(into, call.isVariant ? null : from, { tag }),
    ]);
    if (sent.status === 'rejected') throw sent.reason;
    if (received.status === 'rejected') throw received.reason;
    check([received.value, into], [from, of(from)]);
  },
};
const OP_NAMES = Object.keys(OPS);

/**
 * Lengths of tensors: fewer elements than ranks, about a segment, and more than is sent ahead. The
 * last three lengths are chosen less often.
 */
const LENGTHS = [0, 1, 2, 3, 7, 100, 1000, 16_376, 16_377, 70_000];
const SEGMENTS = [Infinity, 16_376, 1000, 333];

/** One call of a program, which every rank makes. */
export interface Call {
  readonly number: number;
  readonly op: string;
  /** Number of the group: 0 for the world, larger numbers for subgroups. */
  readonly group: number;
  readonly length: number;
  /** Random number that chooses roots, sizes and peers. */
  readonly draw: number;
  /** Whether the call uses the second variant of the op. */
  readonly isVariant: boolean;
  /** Whether ranks may pause before the call. */
  readonly isPause: boolean;
}

interface Program {
  readonly seed: number;
  readonly worldSize: number;
  readonly segmentElements: number;
  readonly isDelayed: boolean;
  /** Their ranks. */
  readonly subgroups: readonly (readonly number[])[];
  readonly calls: readonly Call[];
}

export function programOf(seed: number): Program {
  const rng = createRng(mixSeed(seed));
  const worldSize = 2 + rng.below(9);
  // Each program uses only some of the ops. Otherwise an op that ends its group would hide errors
  // of another op.
  const drawn = OP_NAMES.filter(() => rng.below(2) > 0);
  const ops = drawn.length > 0 ? drawn : OP_NAMES;
  const subgroups = Array.from({ length: rng.below(3) }, () => subgroupOf(worldSize, rng));
  return {
    seed,
    worldSize,
    subgroups,
    isDelayed: rng.below(4) > 0,
    segmentElements: SEGMENTS[rng.below(4)]!,
    calls: Array.from({ length: 5 + rng.below(40) }, (_, number) => ({
      number,
      op: ops[rng.below(ops.length)]!,
      group: rng.below(subgroups.length + 1),
      length: LENGTHS[rng.below(LENGTHS.length - (rng.below(4) > 0 ? 3 : 0))]!,
      draw: rng.below(1_000_000),
      isVariant: rng.below(2) === 0,
      isPause: rng.below(8) === 0,
    })),
  };
}

function subgroupOf(worldSize: number, rng: Rng): number[] {
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank).filter(() => rng.below(2) > 0);
  if (ranks.length === 0) return [rng.below(worldSize)];
  return rng.below(2) > 0 ? ranks.toReversed() : ranks;
}

/** The kinds of trouble that a rank can have during its calls. */
const STRIKES = {
  closesLink: ({ links }, _group, rank, draw) => linkOf(links[rank]!, draw).close(),
  losesFrame({ links }, _group, rank, draw) {
    const link = linkOf(links[rank]!, draw);
    const send = link.send.bind(link);
    link.send = () => {
      link.send = send;
      return Promise.resolve();
    };
  },
  freezes({ links }, _group, rank) {
    for (const link of links[rank]!.values()) {
      link.onframe = null;
      link.send = () => new Promise(() => {});
    }
  },
  aborts: (_world, group) => group.abort(new PeergradError('the rank failed')),
  destroysGroup: (_world, group) => group.destroy(),
} satisfies Record<string, (world: TestWorld, group: ProcessGroup, rank: number, draw: number) => void>;

export const TROUBLES = [
  'stopsCalling',
  'callsAnother',
  'isLate',
  'isLateAndStops',
  ...(Object.keys(STRIKES) as (keyof typeof STRIKES)[]),
] as const;

/** Kinds of trouble whose error the other ranks receive at once, before any deadline. */
export const NOTIFIED: readonly Trouble['kind'][] = ['closesLink', 'aborts'];

interface Trouble {
  readonly kind: (typeof TROUBLES)[number];
  readonly rank: number;
  /**
   * Number of the call after which the trouble begins, and its delay in turns of the event loop.
   */
  readonly at: number;
  readonly turns: number;
  readonly draw: number;
}

export function troubleOf({ seed, worldSize, calls }: Program): Trouble {
  const rng = createRng(mixSeed(seed, 1));
  return {
    kind: TROUBLES[seed % TROUBLES.length]!,
    rank: rng.below(worldSize),
    at: rng.below(calls.length),
    turns: rng.below(20),
    draw: rng.below(1000),
  };
}

/** How a call ended on a rank. */
export interface Outcome {
  readonly rank: number;
  readonly call: Call;
  /** Global ranks of the call's group. */
  readonly ranks: readonly number[];
  /**
   * `right`, or the error of the call. `pending` if the call has not ended after its deadline and
   * all inquiries.
   */
  readonly end: 'pending' | 'right' | Error;
  /** Milliseconds that the clock had moved when the call ended. */
  readonly waitedMs: number;
}

/**
 * Runs a program on all ranks, over links that delay frames, until every call has ended or should
 * have ended.
 */
export async function play(program: Program, trouble: Trouble | null): Promise<Outcome[]> {
  const { seed, worldSize, segmentElements, isDelayed, subgroups } = program;
  const clock = new ManualClock();
  const world = createMeshes(worldSize, isDelayed ? delayedLinks(createRng(mixSeed(seed, 2))) : undefined);
  const options = { clock, segmentElements, timeoutMs: TIMEOUT_MS };
  const worldGroups = world.meshes.map((mesh) => new ProcessGroup(mesh, options));
  const groups = worldGroups.map((group) => [group]);
  for (const ranks of subgroups) {
    const made = await Promise.all(worldGroups.map((group) => group.newGroup(ranks)));
    made.forEach((group, rank) => groups[rank]!.push(group));
  }
  const outcomes: Outcome[] = [];
  const run = async (rank: number): Promise<void> => {
    const rng = createRng(mixSeed(seed, 3, rank));
    const own = trouble?.rank === rank ? trouble : null;
    for (const call of program.calls) {
      if (call.isPause) await turns(rng.below(6));
      if (own && hasStopped(own, call)) return;
      const kind = own?.at === call.number ? own.kind : null;
      if (kind === 'isLate' || kind === 'isLateAndStops') await block(world, rank, clock);
      if (kind !== null && isStrike(kind)) {
        void turns(own!.turns).then(() => STRIKES[kind](world, worldGroups[rank]!, rank, own!.draw));
      }
      const made = kind === 'callsAnother' ? { ...call, op: 'allReduce', length: call.length + 2 } : call;
      const group = groups[rank]![call.group]!;
      const outcome: Outcome = { rank, call, ranks: group.ranks, end: 'pending', waitedMs: 0 };
      const place = outcomes.push(outcome) - 1;
      const ended = (end: Outcome['end']): void => {
        outcomes[place] = { ...outcome, end, waitedMs: clock.now() };
      };
      void issue(made, group, rank).then(
        () => ended('right'),
        (error: unknown) => ended(asError(error)),
      );
    }
  };
  const pending = (): number => outcomes.filter(({ end }) => end === 'pending').length;
  for (const rank of worldGroups.keys()) void run(rank);
  await settle(world, pending);
  for (let waited = 0; pending() > 0 && waited < MAX_WAIT_MS; waited += TIMEOUT_MS / 4) {
    clock.advance(TIMEOUT_MS / 4);
    await settle(world, pending);
  }
  for (const group of groups.flat()) group.destroy();
  world.close();
  return outcomes;
}

async function issue(call: Call, group: ProcessGroup, self: number): Promise<void> {
  const of = (rank: number, length = call.length): Float32Array => {
    const tensor = new Float32Array(length);
    // The values are small whole numbers, so their sums are exact. This is a loop, because a
    // callback for each element would take most of a program's time.
    for (let i = 0; i < length; i++) tensor[i] = ((call.number * 7 + rank * 31 + i * 13) % 17) - 8;
    return tensor;
  };
  await OPS[call.op]!({
    call,
    group,
    self,
    of,
    root: group.ranks[call.draw % group.worldSize]!,
    sum(length = call.length) {
      const sum = new Float32Array(length);
      for (const tensor of group.ranks.map((rank) => of(rank, length))) {
        for (let i = 0; i < length; i++) sum[i]! += tensor[i]!;
      }
      return sum;
    },
    check(got, expected) {
      if (group.rank >= 0) expectEqual(got, expected, `call ${call.number}, ${call.op}, on rank ${self}`);
    },
  });
}

function isStrike(kind: Trouble['kind']): kind is keyof typeof STRIKES {
  return kind in STRIKES;
}

/** Whether a rank has stopped making calls. A rank that was late makes at least one more call. */
function hasStopped({ kind, at, draw }: Trouble, { number }: Call): boolean {
  return (kind === 'stopsCalling' && number >= at) || (kind === 'isLateAndStops' && number > at + (draw % 4));
}

/** Blocks a rank like a blocked tab. The frames of the rank wait, too. */
async function block({ links }: TestWorld, rank: number, clock: ManualClock): Promise<void> {
  const handlers = [...links[rank]!.values()].map((link) => [link, link.onframe] as const);
  for (const [link] of handlers) link.onframe = null;
  await new Promise<void>((resolve) => clock.after(LATE_MS, resolve));
  for (const [link, handler] of handlers) link.onframe = handler;
}

/** Resolves once no frame moves and no call ends. */
async function settle({ links }: TestWorld, pending: () => number): Promise<void> {
  let before = '';
  for (let idle = 0; idle < QUIET_TURNS; idle++) {
    await turns(1);
    const frames = links.flatMap((own) => [...own.values()]).map(({ counters }) => counters.framesReceived);
    const now = `${total(frames)} ${pending()}`;
    if (now !== before) idle = 0;
    before = now;
  }
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

function linkOf<Link>(links: ReadonlyMap<number, Link>, draw: number): Link {
  return [...links.values()][draw % links.size]!;
}

function unevenSize({ length, draw }: Call, rank: number): number {
  return (rank * 31 + draw) % (length + 1);
}

function splitSize({ draw }: Call, from: number, to: number): number {
  return (from + to + draw) % 5 === 0 ? 0 : (from * 7 + to * 3 + draw) % 400;
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
