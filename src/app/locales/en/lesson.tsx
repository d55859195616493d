/** The lesson. */
import type { ComponentChildren } from 'preact';
import { list, plural } from '../format.ts';

/** A page of text: its title, what it says, and what to do. */
interface Thought {
  title: string;
  text: ComponentChildren;
  task?: ComponentChildren;
}

/** What pages need of the lesson. */
export interface ThoughtFacts {
  n: number;
  /** Numbers of each rank. */
  k: number;
  /** The sum at the first place: `3 + 5 + 2 = 10`. */
  firstSum: string;
  chunks: string;
}

const tabs = (n: number): string => plural(n, 'tab');

export const lesson = {
  heading: 'The lesson',
  simulated: 'simulated: all of these ranks are in this tab',
  /** `3 of 11`. */
  place: (page: number, of: number) => `${page} of ${of}`,
  next: 'Next',
  back: 'Back',
  pages: 'Pages of the lesson',
  hostIsAt: (page: number) => `The class is on page ${page}.`,
  goThere: 'Go there',
  leading: 'You lead: the class turns the page with you.',

  thoughts: {
    numbers: ({ k }: ThoughtFacts): Thought => ({
      title: `${k} numbers each`,
      text: `Every tab holds ${k} small numbers of its own. In training they would be a gradient: thousands of numbers that say how a model should change.`,
      task: 'Change yours, if you like.',
    }),
    goal: ({ n, firstSum }: ThoughtFacts): Thought => ({
      title: 'Everybody wants the sums',
      text: (
        <>
          At each place, the sum over all {tabs(n)}. At the first: <b class="nowrap">{firstSum}</b>. Everybody wants all
          of the sums, and nobody has more than their own row.
        </>
      ),
      task: 'How would you do it, if you could only pass notes?',
    }),
    chunks: ({ n, chunks }: ThoughtFacts): Thought => ({
      title: 'Cut it into chunks',
      text: `The tabs stand in a ring, and each talks to its right neighbour only. A row is cut into as many chunks as there are tabs, ${n} here: ${chunks}. While one tab works on A, the next can work on B: nobody is idle.`,
    }),
    reduceScatter: ({ n }: ThoughtFacts): Thought => ({
      title: 'First round: add up',
      text: `In each step every tab passes one chunk to the right, and adds its own numbers to the chunk that comes in from the left. After ${plural(n - 1, 'step')} each tab owns one finished sum. This is called reduce-scatter.`,
      task: 'Take one step after the other, and follow one chunk on its way.',
    }),
    allGather: ({ n }: ThoughtFacts): Thought => ({
      title: 'Second round: hand out',
      text: `The finished sums go round once more. Nobody adds now, everybody keeps a copy. ${n - 1} more, and all rows are the same: an all-gather, and with it the all-reduce is done.`,
      task: 'Go on until every row holds the same sums.',
    }),
    bytes: ({ n, k }: ThoughtFacts): Thought => ({
      title: 'Count the bytes',
      text: `A number is 4 bytes. In ${plural(2 * (n - 1), 'step')} each line has carried one chunk a step: together 2 × ${k} × ${n - 1} ÷ ${n} numbers, less than twice a row, and ${k % n === 0 ? 'no line more than another' : 'all lines alike, as far as whole numbers go'}.`,
      task: 'A line carries both ways at once: what counts in a step is the larger of in and out.',
    }),
    server: ({ n, k }: ThoughtFacts): Thought => ({
      title: 'The obvious way',
      text: `All send their row to rank 0, which adds up and sends the sums back: a parameter server. Only two steps, but ${n - 1} rows of ${k} come in on one line, and ${n - 1} go out.`,
      task: 'Choose “parameter server”, take its two steps, and look at the lines.',
    }),
    compare: (): Thought => ({
      title: 'More tabs',
      text: 'With N tabs and K numbers, the busiest line carries 2K(N−1) numbers at a server, and 2K(N−1)/N on the ring: never more than twice a row, however many come.',
      task: 'Move the slider. Where would you put sixteen laptops?',
    }),
    slow: (): Thought => ({
      title: 'Break it: a slow line',
      text: 'One line takes seconds for each chunk. Its right neighbour waits first; in the next step the one behind it waits too, and so on: the stall travels one rank a step, until the whole ring goes at the pace of its slowest line.',
      task: 'Slow a line down, then take all steps at once, and read the timeline.',
    }),
    drop: (): Thought => ({
      title: 'Break it: somebody leaves',
      text: 'A tab is closed, a battery dies. The two neighbours find each other, the ring closes around the gap, and the round begins again with the numbers that are left.',
      task: 'Take a step or two, then let one go.',
    }),
    training: (): Thought => ({
      title: 'This is how tabs train',
      text: 'Put a gradient in place of your numbers: 11 274 of them for the smallest model here. After every step the tabs do what you have just done, in a fraction of a second, or in a second or two where thirty tabs share a Wi-Fi, and all take the same step with the same sums. That is data-parallel training.',
    }),
  },

  own: {
    title: 'Your numbers',
    number: (place: number) => `Your number ${place}`,
    range: (most: number) => `Whole numbers from −${most} to ${most}.`,
    locked: 'They stay as they are until the next round.',
    nextRound: 'They count from the next round on.',
    others: 'Draw other numbers',
  },

  ring: {
    title: 'The ring',
    label: (n: number, done: number, of: number) =>
      `${plural(n, 'rank')} in a ring; ${done} of ${plural(of, 'step')} taken.`,
    star: (n: number) => `${plural(n, 'rank')}: all send to rank 0, and rank 0 sends to all.`,
    slow: (seconds: number) => `slow: ${seconds} s`,
    simulated: 'simulated',
  },

  phases: {
    before: 'ready',
    reduceScatter: 'adding up',
    allGather: 'handing out',
    gathering: 'all to rank 0',
    returning: 'rank 0 to all',
    done: 'all the same',
  },
  steps: {
    title: 'The round',
    round: (number: number) => `Round ${number}`,
    taken: (done: number, of: number) => `step ${done} of ${of}`,
    next: 'Next step',
    all: 'All steps',
    again: 'New round',
    leader: (who: string) => `${who} takes the steps.`,
    moving: 'Under way …',
    waitsFor: (rank: number) => `This tab waits for rank ${rank}.`,
    finish: 'End the lesson',
    finishQuestion: 'End it for all?',
    finishYes: 'End',
    finishNo: 'Go on',
  },

  lastStep: {
    ready: 'Nothing has been sent yet: every row is somebody’s own.',
    alone: 'The ring closes when a second tab joins.',
    waiting: 'You came after this round began: you are in the next one.',
    added: (sent: string, to: number, got: string, from: number, sum: string) =>
      `You passed ${sent} to rank ${to}, and rank ${from} gave you ${got}: ${sum}.`,
    copied: (sent: string, to: number, got: string, from: number) =>
      `You passed the finished ${sent} on to rank ${to}, and keep ${got} from rank ${from}.`,
    /** A chunk and its numbers. */
    chunk: (name: string, numbers: string) => `${name} (${numbers})`,
    gave: 'You sent your row to rank 0.',
    gathered: 'All rows came to you, and you added them up.',
    returned: 'You sent the sums to everybody.',
    took: 'The sums came back from rank 0.',
  },

  grid: {
    caption: 'What every rank holds now',
    rank: 'Rank',
    you: 'you',
    place: (place: number) => `Place ${place}`,
    chunk: (name: string) => `Chunk ${name}`,
    sum: 'Sums to come to',
    waits: 'waits for the next round',
    cell: (rank: number, place: string, text: string, ranks: readonly number[]) =>
      ranks.length === 1
        ? `Rank ${rank}, ${place}: ${text}, its own number.`
        : `Rank ${rank}, ${place}: ${text}, of ranks ${list(ranks)}.`,
    hint: 'Point at a number, or go to it with the arrow keys, to see what it is made of.',
    some: (n: number) => `Of ${n} ranks, you and your neighbours.`,
  },

  modes: {
    title: 'How they add up',
    ring: 'ring',
    'parameter-server': 'parameter server',
    note: 'Another way begins a new round.',
  },

  bytes: {
    title: 'What each line has carried',
    line: (rank: number, bytes: string, sent: string, received: string) =>
      `Rank ${rank}: ${bytes} on its line; ${sent} sent, ${received} received.`,
    sent: 'sent',
    received: 'received',
    busiest: (rank: number, bytes: string) => `Busiest: rank ${rank}, ${bytes}.`,
    equal: (bytes: string) => `All lines carried the same: ${bytes}.`,
    none: 'Nothing yet.',
    formula: (n: number, k: number) =>
      `Measured in this round. ${plural(n, 'rank')}, ${k} numbers each, 4 bytes a number.`,
    formulaSolo: (n: number, k: number) =>
      `Counted in this round. ${plural(n, 'rank')}, ${k} numbers each, 4 bytes a number.`,
  },

  compare: {
    title: 'The busiest line',
    tabs: 'Tabs, N',
    numbers: (k: number) => `K = ${k} numbers each`,
    ring: 'ring, 2K(N−1)/N',
    'parameter-server': 'server, 2K(N−1)',
    measured: (bytes: string) => `measured here: ${bytes}`,
    counted: (bytes: string) => `counted here: ${bytes}`,
    uneven: '(chunks are whole numbers)',
    times: (n: number) => `At the server it is ${n} times as much.`,
  },

  stall: {
    title: 'A slow line',
    from: 'Whose',
    /** The line that a rank sends on. */
    line: (from: number, to: number) => `rank ${from} to rank ${to}`,
    lineOf: (rank: number) => `what rank ${rank} sends`,
    seconds: 'Takes',
    longer: (seconds: number) => `${seconds} s a message`,
    slow: 'Slow it down',
    fast: 'As fast as the others again',
    is: (rank: number, seconds: number) => `What rank ${rank} sends takes ${seconds} s longer.`,
    timeline: 'Who waited in which step',
    row: (rank: number, waits: string) => `Rank ${rank}: ${waits}.`,
    step: (step: number, time: string) => `step ${step} after ${time}`,
    none: 'The timeline fills as steps are taken.',
    note: 'A block is a step, from having what it needs to having what comes: hatched, where it waited.',
    ownClocks: 'Each rank by its own clock.',
  },

  drop: {
    title: 'Let one go',
    who: 'Rank',
    yes: 'Let it go',
    few: 'Two ranks are the least there can be.',
    room: 'Close a tab, or turn off a device’s network.',
    host: 'The host can send one away, or somebody closes their tab.',
  },

  change: {
    left: (who: readonly string[], remain: number) =>
      `${list(who)} left: the ring closed around ${who.length === 1 ? 'it' : 'them'}, and the numbers of ${remain} remain.`,
    joined: (who: readonly string[]) => `${list(who)} joined.`,
    rank: (rank: number, name: string) => (name === '' ? `Rank ${rank}` : `Rank ${rank} (${name})`),
    restarted: 'The round begins again.',
    later: 'They are in the next round.',
  },

  solo: { ranks: 'Ranks', startRoom: 'Start a room', lessonRoom: 'Do it with a class' },
  over: {
    title: 'The lesson is over.',
    text: 'The room is still open: the host can start it again, or train a model with the same tabs.',
  },
  room: { again: 'Start again', join: 'Join again', lobby: 'Back to the room' },
};
