/** The lesson. */
import type { ComponentChildren } from 'preact';
import { list, plural } from '../format.ts';

/** The text of a page: title, explanation, task. */
interface Thought {
  title: string;
  text: ComponentChildren;
  task?: ComponentChildren;
}

/** Numbers of the lesson that the texts quote. */
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
      task: 'Change yours if you like.',
    }),
    goal: ({ n, firstSum }: ThoughtFacts): Thought => ({
      title: 'Everybody needs the sums',
      text: (
        <>
          At each place, the sum over all {tabs(n)}. At the first: <b class="nowrap">{firstSum}</b>. Everybody needs all
          sums, and nobody has more than their own row.
        </>
      ),
      task: 'How would you do it if you could only pass notes?',
    }),
    chunks: ({ n, chunks }: ThoughtFacts): Thought => ({
      title: 'Cut it into chunks',
      text: `The tabs form a ring, and each sends to its right neighbour only. A row is cut into as many chunks as there are tabs, ${n} here: ${chunks}. While one tab works on A, the next works on B: nobody is idle.`,
    }),
    reduceScatter: ({ n }: ThoughtFacts): Thought => ({
      title: 'First round: add up',
      text: `In each step every tab passes one chunk to the right and adds its own numbers to the chunk from the left. After ${plural(n - 1, 'step')} each tab has one finished sum. This is called reduce-scatter.`,
      task: 'Take the steps one by one and follow one chunk.',
    }),
    allGather: ({ n }: ThoughtFacts): Thought => ({
      title: 'Second round: copy',
      text: `The finished sums go round once more. Nobody adds now; everybody keeps a copy. After ${n - 1} more, all rows are the same. This is called all-gather, and it completes the all-reduce.`,
      task: 'Continue until every row holds the same sums.',
    }),
    bytes: ({ n, k }: ThoughtFacts): Thought => ({
      title: 'Count the bytes',
      text: `A number is 4 bytes. In ${plural(2 * (n - 1), 'step')} each link has carried one chunk per step: together 2 × ${k} × ${n - 1} ÷ ${n} numbers, less than twice a row, and ${k % n === 0 ? 'no link carries more than another' : 'all links carry about the same (numbers cannot be split)'}.`,
      task: 'A link carries both directions at once: the larger of in and out counts for a step.',
    }),
    server: ({ n, k }: ThoughtFacts): Thought => ({
      title: 'The obvious way',
      text: `All send their row to rank 0, which adds them up and sends the sums back: a parameter server. It takes only two steps, but ${n - 1} rows of ${k} come in on one link, and ${n - 1} go out.`,
      task: 'Choose “parameter server”, take its two steps, and look at the links.',
    }),
    compare: (): Thought => ({
      title: 'More tabs',
      text: 'With N tabs and K numbers, the busiest link carries 2K(N−1) numbers at a server and 2K(N−1)/N on the ring: never more than twice a row, whatever N is.',
      task: 'Move the slider. Where would you put sixteen laptops?',
    }),
    slow: (): Thought => ({
      title: 'Break it: a slow link',
      text: 'One link takes seconds for each chunk. Its right neighbour waits first; in the next step the tab after it waits too. The stall travels one rank per step, until the whole ring runs at the pace of its slowest link.',
      task: 'Slow a link down, take all steps at once, and read the timeline.',
    }),
    drop: (): Thought => ({
      title: 'Break it: somebody leaves',
      text: 'A tab is closed, a battery dies. The two neighbours connect, the ring closes around the gap, and the round starts again with the remaining numbers.',
      task: 'Take a step or two, then remove one rank.',
    }),
    training: (): Thought => ({
      title: 'This is how tabs train',
      text: 'Replace your numbers by a gradient: 11 274 numbers for the smallest model here. In every step the tabs do what you have just done, in a fraction of a second, or in a second or two where thirty tabs share a Wi-Fi. All take the same step with the same sums. That is data-parallel training (DDP).',
    }),
  },

  own: {
    title: 'Your numbers',
    number: (place: number) => `Your number ${place}`,
    range: (most: number) => `Whole numbers from −${most} to ${most}.`,
    locked: 'They cannot change until the next round.',
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
    reduceScatter: 'reduce-scatter',
    allGather: 'all-gather',
    gathering: 'all to rank 0',
    returning: 'rank 0 to all',
    done: 'all equal',
  },
  steps: {
    title: 'The round',
    round: (number: number) => `Round ${number}`,
    taken: (done: number, of: number) => `step ${done} of ${of}`,
    next: 'Next step',
    all: 'All steps',
    again: 'New round',
    leader: (who: string) => `${who} takes the steps.`,
    moving: 'Moving …',
    waitsFor: (rank: number) => `This tab waits for rank ${rank}.`,
    finish: 'End the lesson',
    finishQuestion: 'End it for all?',
    finishYes: 'End',
    finishNo: 'Continue',
  },

  lastStep: {
    ready: 'Nothing has been sent yet: every row holds its rank’s own numbers.',
    alone: 'The ring closes when a second tab joins.',
    waiting: 'You joined after this round began: you take part in the next one.',
    added: (sent: string, to: number, got: string, from: number, sum: string) =>
      `You sent ${sent} to rank ${to}, and rank ${from} sent you ${got}: ${sum}.`,
    copied: (sent: string, to: number, got: string, from: number) =>
      `You sent the finished ${sent} to rank ${to} and keep ${got} from rank ${from}.`,
    /** A chunk and its numbers. */
    chunk: (name: string, numbers: string) => `${name} (${numbers})`,
    gave: 'You sent your row to rank 0.',
    gathered: 'You received all rows and added them up.',
    returned: 'You sent the sums to everybody.',
    took: 'You received the sums from rank 0.',
  },

  grid: {
    caption: 'What every rank holds now',
    rank: 'Rank',
    you: 'you',
    place: (place: number) => `Place ${place}`,
    chunk: (name: string) => `Chunk ${name}`,
    sum: 'Final sums',
    waits: 'waits for the next round',
    cell: (rank: number, place: string, text: string, ranks: readonly number[]) =>
      ranks.length === 1
        ? `Rank ${rank}, ${place}: ${text}, its own number.`
        : `Rank ${rank}, ${place}: ${text}, of ranks ${list(ranks)}.`,
    hint: 'Point at a number, or move to it with the arrow keys, to see its terms.',
    some: (n: number) => `You and your neighbours, of ${n} ranks.`,
  },

  modes: {
    title: 'Method',
    ring: 'ring',
    'parameter-server': 'parameter server',
    note: 'Another method starts a new round.',
  },

  bytes: {
    title: 'Bytes on each link',
    line: (rank: number, bytes: string, sent: string, received: string) =>
      `Rank ${rank}: ${bytes} on its link; ${sent} sent, ${received} received.`,
    sent: 'sent',
    received: 'received',
    busiest: (rank: number, bytes: string) => `Busiest: rank ${rank}, ${bytes}.`,
    equal: (bytes: string) => `All links carried the same: ${bytes}.`,
    none: 'Nothing yet.',
    formula: (n: number, k: number) =>
      `Measured in this round. ${plural(n, 'rank')}, ${k} numbers each, 4 bytes per number.`,
    formulaSolo: (n: number, k: number) =>
      `Counted in this round. ${plural(n, 'rank')}, ${k} numbers each, 4 bytes per number.`,
  },

  compare: {
    title: 'The busiest link',
    tabs: 'Tabs, N',
    numbers: (k: number) => `K = ${k} numbers each`,
    ring: 'ring, 2K(N−1)/N',
    'parameter-server': 'server, 2K(N−1)',
    measured: (bytes: string) => `measured here: ${bytes}`,
    counted: (bytes: string) => `counted here: ${bytes}`,
    uneven: '(numbers cannot be split)',
    times: (n: number) => `At the server it is ${n} times as much.`,
  },

  stall: {
    title: 'A slow link',
    from: 'Link',
    /** The link that a rank sends on. */
    line: (from: number, to: number) => `rank ${from} to rank ${to}`,
    lineOf: (rank: number) => `messages from rank ${rank}`,
    seconds: 'Delay',
    longer: (seconds: number) => `${seconds} s per message`,
    slow: 'Slow it down',
    fast: 'Remove the delay',
    is: (rank: number, seconds: number) => `Every message from rank ${rank} takes ${seconds} s longer.`,
    timeline: 'Who waited in which step',
    row: (rank: number, waits: string) => `Rank ${rank}: ${waits}.`,
    step: (step: number, time: string) => `step ${step} after ${time}`,
    none: 'The timeline shows each step that is taken.',
    note: 'A block is one step of a rank; the hatched part is waiting.',
    simulatedClock: 'Times are simulated.',
    ownClocks: 'Each rank is shown on its own clock.',
  },

  drop: {
    title: 'Remove a rank',
    who: 'Rank',
    yes: 'Remove it',
    few: 'At least two ranks must remain.',
    room: 'Close a tab, or turn off a device’s network.',
    host: 'The host can remove a member, or somebody closes their tab.',
  },

  change: {
    left: (who: readonly string[], remain: number) =>
      `${list(who)} left: the ring closed around ${who.length === 1 ? 'it' : 'them'}, and the numbers of ${remain} remain.`,
    joined: (who: readonly string[]) => `${list(who)} joined.`,
    rank: (rank: number, name: string) => (name === '' ? `Rank ${rank}` : `Rank ${rank} (${name})`),
    restarted: 'The round starts again.',
    later: 'They take part in the next round.',
  },

  solo: { ranks: 'Ranks', startRoom: 'Start a room', lessonRoom: 'Take it with a class' },
  over: {
    title: 'The lesson is over.',
    text: 'The room is still open: the host can start the lesson again or train a model with the same tabs.',
  },
  room: { again: 'Start again', join: 'Join again', lobby: 'Back to the room' },
};
