/** The ring, the grid and their player. */
import type { ComponentChildren } from 'preact';
import { list, plural } from '../format.ts';

/** Who is in no run yet has not met ranks. */
const each = (isRun: boolean): string => (isRun ? 'rank' : 'tab');

export const ring = {
  restart: 'Back to the beginning',
  back: 'One ring step back',
  play: 'Play',
  pause: 'Pause',
  on: 'One ring step on',
  space: 'space',
  withKey: (does: string, key: string) => `${does} (${key})`,
  place: 'Place in the round',
  done: (steps: number, of: number) => `${steps} of ${of} ring steps done`,
  speed: 'Speed',
  reduceScatter: 'adding up',
  allGather: 'handing out',
  simulated: 'simulated',
  nothing: 'nothing to replay yet',
  took: (ms: string, slower: string, isStretched: boolean) =>
    `took ${ms} as timed by this rank; replayed ${slower}${isStretched ? ', quick hops more' : ''}`,
  slower: (times: string) => `${times}× slower`,
  faster: (times: string) => `${times}× faster`,

  /** Two or three words each, for the middle of the ring. */
  titles: {
    own: 'own gradients',
    reduceScatter: (hop: number, of: number) => `adding up ${hop}/${of}`,
    allGather: (hop: number, of: number) => `handing out ${hop}/${of}`,
    done: 'all the same',
    alone: 'alone',
  },
  ownText: (isRun: boolean, n: number) =>
    `Every ${each(isRun)} has computed a gradient from its own share of the samples, and cut it into ${plural(n, 'chunk')}.`,
  reduceScatterText: (isRun: boolean) =>
    `Each ${each(isRun)} passes one chunk to the right, and adds its own numbers to the one that comes in.`,
  youAdd: (chunk: string, to: number, comes: string, from: number) =>
    `You send chunk ${chunk} to rank ${to}, and add your numbers to chunk ${comes} from rank ${from}.`,
  allGatherText: (isRun: boolean) =>
    `Each finished sum travels round once more, and every ${each(isRun)} that it meets keeps a copy.`,
  youCopy: (chunk: string, to: number, comes: string, from: number) =>
    `You pass the finished chunk ${chunk} on to rank ${to}, and keep a copy of chunk ${comes} from rank ${from}.`,
  doneText: (isRun: boolean) =>
    `Every ${each(isRun)} now holds the same sums, and so the same average gradient: all take the same step.`,

  cell: (rank: number, chunk: string) => `Rank ${rank}, chunk ${chunk}`,
  travelling: (chunk: string) => `Chunk ${chunk}, on its way`,
  holdsAll: (n: number) => `the finished sum of all ${plural(n, 'rank')}`,
  holdsOwn: (rank: number) => `the numbers of rank ${rank} only`,
  holdsSome: (ranks: readonly number[]) => `the sum of ranks ${list(ranks)} so far`,
  holdsMany: (first: number, last: number, count: number, n: number) =>
    `the sum of ${count} of ${n} ranks so far, ${first} round to ${last}`,
  /** `Rank 2, chunk B: the sum of …, 3 + 5 = 8.` */
  cellText: (what: string, holds: string, sums: string) => `${what}: ${holds}${sums === '' ? '' : `, ${sums}`}.`,
  /** The beginning of what `moves` ends. */
  chunk: (name: string, bytes: string | null) => `Chunk ${name}${bytes === null ? '' : `, ${bytes}`}:`,
  moves: (from: ComponentChildren, to: ComponentChildren, step: number, of: number) => (
    <>
      from {from} to {to} in ring step {step} of {of}.
    </>
  ),
  /**
   * A rank times what it sends and what it receives; the rest of the same ring step is drawn at its
   * times.
   */
  left: (ms: string, clock: number) => `Left ${ms} after the round began, by the clock of rank ${clock}.`,
  arrived: (ms: string, clock: number) => `Arrived ${ms} after the round began, by the clock of rank ${clock}.`,
  ownTimes: (clock: number, left: string | null, arrived: string | null) =>
    left === null && arrived === null
      ? `Rank ${clock}, whose clock this is, has no time of this ring step.`
      : `Drawn at the times of rank ${clock}, which cannot see it: its own chunk ${list([
          ...(left === null ? [] : [`left after ${left}`]),
          ...(arrived === null ? [] : [`the next arrived after ${arrived}`]),
        ])}.`,
  noTimes: 'Simulated: nobody timed it.',
  hint: 'A column per chunk, a row per rank; a slot per rank whose numbers are in. Equal rows: done. Point at a cell to follow its chunk.',
  grid: (n: number) =>
    `Who holds what: ${n} ranks by ${n} chunks. Arrow keys go from cell to cell, Escape leaves; the player’s caption says what is happening.`,
  onEdges: 'Chunks on the ring: arrow keys go round, Escape leaves.',
  edge: (chunk: string, from: number, to: number) => `Chunk ${chunk}, from rank ${from} to rank ${to}`,

  picture: (n: number, kind: string) => `A ring of ${n} ranks that exchange chunks, ${kind}.`,
  preview: 'simulated: a preview',
  closes: 'The ring closes when a second tab joins.',
  legend: (gradient: ComponentChildren) => (
    <>A capsule is a chunk of a {gradient}; its slots show whose numbers are in it.</>
  ),
  explore: 'Step through it',
  fold: 'Fold it away',
  ranks: 'Ranks',
  stage: 'The all-reduce, step by step',

  replay: (step: number) => `replay of step ${step}`,
  bucket: (bucket: number, of: number, bytes: string) => `bucket ${bucket} of ${of}, ${bytes}`,
  connecting: 'connecting',
  /** How a link goes. */
  routes: { direct: 'direct', relayed: 'relayed', memory: 'same browser' },
  membersOf: (title: string, isRing: boolean, names: readonly string[]) =>
    `${title}. ${isRing ? 'A ring of ' : 'No ring, world size '}${names.length}: ${names.map((name, rank) => `rank ${rank} ${name}`).join(', ')}.`,
};
