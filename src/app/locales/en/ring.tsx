/** The ring, the grid and their player. */
import type { ComponentChildren } from 'preact';
import type { AllReduceName } from '../../../spec/algorithms.ts';
import { listInWords, capitalizeFirst } from '../../../util/text.ts';
import { formatRank, namesOfRanks, plural, formatRankAtStart } from '../format.ts';

/** Before a run, a reader does not know ranks yet, so texts say `tab`. */
const each = (isRun: boolean): string => (isRun ? 'rank' : 'tab');

/** Chunks that this rank sends to another rank, or receives from it. */
interface OwnMove {
  chunks: string;
  rank: number;
  /** Whether the receiver adds the chunks, instead of copying them. */
  adds: boolean;
}

const pictures: Record<AllReduceName, (n: number) => string> = {
  ring: (n) => `A ring of ${n} ranks`,
  'two-level': (n) => `Rings of groups, ${n} ranks`,
  'halving-doubling': (n) => `Pairs of ${n} ranks by halving and doubling`,
  doubling: (n) => `Pairs of ${n} ranks by doubling`,
};

/** The phases of all algorithms: a title of a few words, and what each tab or rank does. */
const phases = {
  'reduce-scatter': {
    title: 'reduce-scatter',
    text: (who: string) =>
      `chunks are added up. Each ${who} sends one chunk to the right and adds its own numbers to the chunk that it receives.`,
  },
  'all-gather': {
    title: 'all-gather',
    text: (who: string) =>
      `sums are copied to all. Each finished sum travels round the ring again, and every ${who} keeps a copy.`,
  },
  'group-reduce-scatter': {
    title: 'add in groups',
    text: (who: string) =>
      `each group is a small ring. Each ${who} sends some chunks to the right and adds its own numbers to those that it receives.`,
  },
  'across-reduce-scatter': {
    title: 'add across groups',
    text: (who: string) =>
      `each ${who} sends a chunk to the ${who} at the same position in the next group, which adds its own numbers.`,
  },
  'across-all-gather': {
    title: 'copy across groups',
    text: (who: string) => `each ${who} sends a finished sum to the ${who} at the same position in the next group.`,
  },
  'group-all-gather': {
    title: 'copy in groups',
    text: (who: string) => `finished sums travel round each group, and every ${who} keeps a copy.`,
  },
  fold: {
    title: 'fold',
    text: (who: string) =>
      `the number of ${who}s is not a power of two, so some ${who}s give their numbers to a neighbour. Each such ${who} then waits for the result.`,
  },
  halving: {
    title: 'halving',
    text: (who: string) =>
      `pairs exchange halves. Each ${who} sends one half of its chunks and adds up the other half, which is halved again in the next step.`,
  },
  doubling: {
    title: 'doubling',
    text: (who: string) =>
      `pairs exchange finished sums. After the step, each ${who} has twice as many finished chunks as before.`,
  },
  exchange: {
    title: 'exchange',
    text: (who: string) =>
      `pairs exchange all their numbers. After the step, each ${who} has the sum of twice as many ${who}s as before.`,
  },
  unfold: {
    title: 'unfold',
    text: (who: string) => `each ${who} that gave its numbers away at the start receives the result.`,
  },
};

export const ringTexts = {
  restart: 'Back to the start',
  back: 'One step back',
  play: 'Play',
  pause: 'Pause',
  on: 'One step forward',
  space: 'space',
  withKey: (does: string, key: string) => `${does} (${key})`,
  place: 'Position in the round',
  done: (steps: number, of: number, isRing: boolean) => `${steps} of ${of} ${isRing ? 'ring steps' : 'steps'} done`,
  speed: 'Speed',
  /** Shown next to the name of the phase. */
  reduceScatter: 'chunks are added up',
  allGather: 'sums are copied to all',
  simulated: 'simulated',
  nothing: 'nothing to replay yet',
  took: (ms: string, slower: string, isStretched: boolean) =>
    `took ${ms}, replayed ${slower}${isStretched ? ', short hops even slower' : ''}`,
  slower: (times: string) => `${times}× slower`,
  faster: (times: string) => `${times}× faster`,

  /** Two or three words each, for the centre of the ring. */
  titles: {
    own: 'own gradients',
    step: (phase: string, hop: number, of: number) => (of === 1 ? phase : `${phase} ${hop}/${of}`),
    done: 'all equal',
    alone: 'alone',
  },
  ownText: (isRun: boolean, chunks: number) =>
    chunks === 1
      ? `Every ${each(isRun)} has computed a gradient from its own share of the samples. The gradient stays in one piece.`
      : `Every ${each(isRun)} has computed a gradient from its own share of the samples and cut it into ${plural(chunks, 'chunk')}.`,
  phases,
  phaseText: (phase: keyof typeof phases, isRun: boolean) =>
    `${capitalizeFirst(phases[phase].title)}: ${phases[phase].text(each(isRun))}`,
  whole: 'the whole gradient',
  oneChunk: (chunk: string) => `chunk ${chunk}`,
  manyChunks: (first: string, last: string) => `chunks ${first} to ${last}`,
  /** The chunks that this rank sends and receives in a step; `null` for none. */
  youMove: (phase: keyof typeof phases, sent: OwnMove | null, got: OwnMove | null) => {
    const what = sent === null || sent.adds ? sent?.chunks : sent.chunks.replace(/^(the )?/, '$1finished ');
    const send = sent === null ? '' : `send ${what} to ${formatRank(sent.rank)}`;
    const take =
      got === null
        ? ''
        : got.adds
          ? `add your numbers to ${got.chunks} from ${formatRank(got.rank)}`
          : `keep a copy of ${got.chunks} from ${formatRank(got.rank)}`;
    const both = send !== '' && take !== '' ? `${send} and ${take}` : `${send}${take}`;
    return `${capitalizeFirst(phases[phase].title)}: you ${both === '' ? 'wait for the others' : both}.`;
  },
  doneText: (isRun: boolean) =>
    `Every ${each(isRun)} now holds the same sums, so all take the same step with the same average gradient.`,

  cell: (rank: number, chunks: string) => `${formatRankAtStart(rank)}, ${chunks}`,
  travelling: (chunks: string) => `${capitalizeFirst(chunks)}, on the way`,
  sendsNothing: (rank: number) => `${formatRankAtStart(rank)} sends nothing in this step.`,
  holdsAll: (n: number) => `the finished sum of all ${plural(n, 'rank')}`,
  holdsOwn: (rank: number) => `the numbers of ${formatRank(rank)} only`,
  holdsSome: (ranks: readonly number[]) =>
    `the partial sum of ${listInWords(namesOfRanks(ranks) ?? [`ranks ${listInWords(ranks)}`])}`,
  holdsMany: (first: number, last: number, count: number, n: number) =>
    `the partial sum of ${count} of ${n} ranks, from ${formatRank(first)} round the ring to ${formatRank(last)}`,
  holdsCount: (count: number, n: number) => `the partial sum of ${count} of ${n} ranks`,
  /** The picked chunk in a sentence: `Rank 2, chunk B: the partial sum of …, 3 + 5 = 8.` */
  cellText: (what: string, holds: string, sums: string) => `${what}: ${holds}${sums === '' ? '' : `, ${sums}`}.`,
  /** `chunk` and `moves` are the start and the end of one sentence. */
  chunk: (name: string, bytes: string | null) => `${capitalizeFirst(name)}${bytes === null ? '' : `, ${bytes}`}:`,
  moves: (from: ComponentChildren, to: ComponentChildren, step: number, of: number, isRing: boolean) => (
    <>
      from {from} to {to} in {isRing ? 'ring step' : 'step'} {step} of {of}.
    </>
  ),
  /**
   * A rank measures only the chunks that it sends and receives. All other hops are drawn at the
   * times of this rank.
   */
  left: (ms: string, clock: number) => `The transfer left ${ms} after the round began (clock of ${formatRank(clock)}).`,
  arrived: (ms: string, clock: number) =>
    `The transfer arrived ${ms} after the round began (clock of ${formatRank(clock)}).`,
  ownTimes: (clock: number, left: string | null, arrived: string | null) =>
    left === null && arrived === null
      ? `Times are from ${formatRank(clock)}, which did not measure this step.`
      : `${formatRankAtStart(clock)} cannot measure this hop. It is drawn at the times that this rank measured in the step: ${listInWords(
          [
            ...(left === null ? [] : [`its own transfer left after ${left}`]),
            ...(arrived === null ? [] : [`the transfer to it arrived after ${arrived}`]),
          ],
        )}.`,
  noTimes: 'Times are simulated, not measured.',
  hint: 'Each row is a rank, and each column is a chunk. The slots of a cell show whose numbers are in its sum. Point at a cell to follow its chunk.',
  grid: (n: number, chunks: number) =>
    `Chunks of every rank: ${n} ranks by ${plural(chunks, 'chunk')}. Arrow keys move between cells, and Escape leaves the grid. The caption of the player describes the step.`,
  onEdges: 'Chunks on their way. Arrow keys move between them, and Escape leaves the picture.',
  edge: (chunks: string, from: number, to: number) =>
    `${capitalizeFirst(chunks)}, from ${formatRank(from)} to ${formatRank(to)}`,

  picture: (n: number, algorithm: AllReduceName, kind: string) =>
    `${pictures[algorithm](n)} exchanging chunks, ${kind}.`,
  preview: 'simulated: a preview',
  /** Shown to a single tab. */
  closes: (isRing: boolean): string =>
    isRing ? 'The ring closes when a second tab joins.' : 'An all-reduce is shown when a second tab joins.',
  /** Shown instead of a preview that moves. */
  still: (most: number) => `With more than ${most} tabs, the preview does not move.`,
  legend: (gradient: ComponentChildren) => (
    <>Each capsule is a chunk of a {gradient}. Its slots show whose numbers are in its sum.</>
  ),
  explore: 'Step through it',
  fold: 'Hide the steps',
  ranks: 'Ranks',
  stage: 'The all-reduce, step by step',

  replay: (step: number) => `replay of step ${step}`,
  bucket: (bucket: number, of: number, bytes: string) => `bucket ${bucket} of ${of}, ${bytes}`,
  connecting: 'connecting',
  routes: {
    direct: 'direct',
    relayed: 'relayed',
    memory: 'same browser',
    server: 'server',
    'server-clear': 'server, not encrypted',
  },
  /**
   * Links through the server. `count` is `null` while the routes of some links are not known.
   * `isClear` is `true` if some links are not encrypted.
   */
  served: (count: number | null, of: number, isClear: boolean) => {
    const links =
      count === null
        ? 'Links that go through the server.'
        : count === of
          ? `${of === 1 ? 'The link goes' : `All ${of} links go`} through the server.`
          : `${count} of ${of} links ${count === 1 ? 'goes' : 'go'} through the server.`;
    return isClear ? `${links} Without https they are not encrypted: the server could read gradients.` : links;
  },
  membersOf: (title: string, algorithm: AllReduceName | null, names: readonly string[]) =>
    `${title}. ${algorithm === null ? `No picture of the all-reduce, world size ${names.length}` : pictures[algorithm](names.length)}: ${names.map((name, rank) => `rank ${rank} ${name}`).join(', ')}.`,
};
