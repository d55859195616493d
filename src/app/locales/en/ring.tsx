/** The ring, the grid and their player. */
import type { ComponentChildren } from 'preact';
import { plural } from '../format.ts';
import { list } from '../../../util/text.ts';

/** Before a run, a reader does not know ranks yet, so texts say `tab`. */
const each = (isRun: boolean): string => (isRun ? 'rank' : 'tab');

export const ring = {
  restart: 'Back to the start',
  back: 'One ring step back',
  play: 'Play',
  pause: 'Pause',
  on: 'One ring step forward',
  space: 'space',
  withKey: (does: string, key: string) => `${does} (${key})`,
  place: 'Place in the round',
  done: (steps: number, of: number) => `${steps} of ${of} ring steps done`,
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
    reduceScatter: (hop: number, of: number) => `reduce-scatter ${hop}/${of}`,
    allGather: (hop: number, of: number) => `all-gather ${hop}/${of}`,
    done: 'all equal',
    alone: 'alone',
  },
  ownText: (isRun: boolean, n: number) =>
    `Every ${each(isRun)} has computed a gradient from its own share of the samples and cut it into ${plural(n, 'chunk')}.`,
  reduceScatterText: (isRun: boolean) =>
    `Reduce-scatter: chunks are added up. Each ${each(isRun)} sends one chunk to the right and adds its own numbers to the chunk that it receives.`,
  youAdd: (chunk: string, to: number, comes: string, from: number) =>
    `Reduce-scatter: you send chunk ${chunk} to rank ${to} and add your numbers to chunk ${comes} from rank ${from}.`,
  allGatherText: (isRun: boolean) =>
    `All-gather: sums are copied to all. Each finished sum travels round the ring again, and every ${each(isRun)} keeps a copy.`,
  youCopy: (chunk: string, to: number, comes: string, from: number) =>
    `All-gather: you send the finished chunk ${chunk} to rank ${to} and keep a copy of chunk ${comes} from rank ${from}.`,
  doneText: (isRun: boolean) =>
    `Every ${each(isRun)} now holds the same sums, so all take the same step with the same average gradient.`,

  cell: (rank: number, chunk: string) => `Rank ${rank}, chunk ${chunk}`,
  travelling: (chunk: string) => `Chunk ${chunk}, on its way`,
  holdsAll: (n: number) => `the finished sum of all ${plural(n, 'rank')}`,
  holdsOwn: (rank: number) => `the numbers of rank ${rank} only`,
  holdsSome: (ranks: readonly number[]) => `the partial sum of ranks ${list(ranks)}`,
  holdsMany: (first: number, last: number, count: number, n: number) =>
    `the partial sum of ${count} of ${n} ranks, from rank ${first} round the ring to rank ${last}`,
  /** The picked chunk in a sentence: `Rank 2, chunk B: the partial sum of …, 3 + 5 = 8.` */
  cellText: (what: string, holds: string, sums: string) => `${what}: ${holds}${sums === '' ? '' : `, ${sums}`}.`,
  /** `chunk` and `moves` are the start and the end of one sentence. */
  chunk: (name: string, bytes: string | null) => `Chunk ${name}${bytes === null ? '' : `, ${bytes}`}:`,
  moves: (from: ComponentChildren, to: ComponentChildren, step: number, of: number) => (
    <>
      from {from} to {to} in ring step {step} of {of}.
    </>
  ),
  /**
   * A rank measures only the chunks that it sends and receives. All other hops are drawn at the
   * times of this rank.
   */
  left: (ms: string, clock: number) => `The chunk left ${ms} after the round began (clock of rank ${clock}).`,
  arrived: (ms: string, clock: number) => `The chunk arrived ${ms} after the round began (clock of rank ${clock}).`,
  ownTimes: (clock: number, left: string | null, arrived: string | null) =>
    left === null && arrived === null
      ? `Times are those of rank ${clock}, which did not measure this ring step.`
      : `Rank ${clock} cannot measure this hop, so the hop is drawn at the times of that rank: its own chunk ${list([
          ...(left === null ? [] : [`left after ${left}`]),
          ...(arrived === null ? [] : [`its next chunk arrived after ${arrived}`]),
        ])}.`,
  noTimes: 'Times are simulated, not measured.',
  hint: 'Each row is a rank, and each column is a chunk. The slots of a cell show whose numbers are in its sum. Point at a cell to follow its chunk.',
  grid: (n: number) =>
    `Chunks of every rank: ${n} ranks by ${n} chunks. Arrow keys move between cells, and Escape leaves the grid. The caption of the player describes the step.`,
  onEdges: 'Chunks on the ring. Arrow keys move between them, and Escape leaves the ring.',
  edge: (chunk: string, from: number, to: number) => `Chunk ${chunk}, from rank ${from} to rank ${to}`,

  picture: (n: number, kind: string) => `A ring of ${n} ranks exchanging chunks, ${kind}.`,
  preview: 'simulated: a preview',
  closes: 'The ring closes when a second tab joins.',
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
  /** Route of a link. */
  routes: { direct: 'direct', relayed: 'relayed', memory: 'same browser' },
  membersOf: (title: string, isRing: boolean, names: readonly string[]) =>
    `${title}. ${isRing ? 'A ring of ' : 'No ring, world size '}${names.length}: ${names.map((name, rank) => `rank ${rank} ${name}`).join(', ')}.`,
};
