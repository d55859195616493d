/** Texts of the lesson. */
import type { ComponentChildren } from 'preact';
import { formatRank, namesOfRanks, plural, formatRankAtStart } from '../format.ts';
import { listInWords } from '../../../util/text.ts';

/** The text of a page: title, explanation, task. */
export interface LessonPageText {
  title: string;
  text: ComponentChildren;
  task?: ComponentChildren;
}

/** Facts about the numbers of the lesson, which the texts quote. */
export interface LessonPageFacts {
  n: number;
  /** Numbers of each rank. */
  k: number;
  /** The sum at the first position: `3 + 5 + 2 = 10`. */
  firstSum: string;
  chunks: string;
}

const tabs = (n: number): string => plural(n, 'tab');

export const lessonTexts = {
  heading: 'The lesson',
  lessons: { title: 'Lessons', lesson: 'An all-reduce by hand', pipeline: 'A pipeline by hand' },
  simulated: 'simulated: all of these ranks are in this tab',
  /** The current page: `3 of 11`. */
  place: (page: number, of: number) => `${page} of ${of}`,
  next: 'Next',
  back: 'Back',
  pages: 'Pages of the lesson',
  classIsAt: (page: number) => `The class is now on page ${page} of this lesson.`,
  goThere: 'Go there',
  leading: 'You lead: when you turn the page, it turns for everybody.',

  thoughts: {
    numbers: ({ k }: LessonPageFacts): LessonPageText => ({
      title: `${k} numbers each`,
      text: `Every tab holds ${k} small numbers of its own. In training they would be a gradient: thousands of numbers that say how a model should change.`,
      task: 'Change yours if you like.',
    }),
    goal: ({ n, firstSum }: LessonPageFacts): LessonPageText => ({
      title: 'Everybody needs the sums',
      text: (
        <>
          Each position has a sum over all {tabs(n)}. The sum at the first position is <b class="nowrap">{firstSum}</b>.
          Every tab needs all sums, but has only its own row.
        </>
      ),
      task: 'How would you do it if you could only pass notes?',
    }),
    chunks: ({ n, chunks }: LessonPageFacts): LessonPageText => ({
      title: 'Cut it into chunks',
      text: `The tabs form a ring, and each sends to its right neighbour only. A row is cut into as many chunks as there are tabs, ${n} here: ${chunks}. While one tab works on A, the next works on B: nobody is idle.`,
    }),
    reduceScatter: ({ n }: LessonPageFacts): LessonPageText => ({
      title: 'First round: add up',
      text: `In each step every tab passes one chunk to the right and adds its own numbers to the chunk from the left. After ${plural(n - 1, 'step')} each tab has one finished sum. This is called reduce-scatter.`,
      task: 'Take the steps one by one and follow one chunk.',
    }),
    allGather: ({ n }: LessonPageFacts): LessonPageText => ({
      title: 'Second round: copy',
      text: `The finished sums go round the ring once more. Nobody adds now; everybody keeps a copy. After ${plural(n - 1, 'more step')}, all rows are the same. This is called all-gather, and it completes the all-reduce.`,
      task: 'Continue until every row holds the same sums.',
    }),
    bytes: ({ n, k }: LessonPageFacts): LessonPageText => ({
      title: 'Count the bytes',
      text: `A number has 4 bytes. In each of the ${plural(2 * (n - 1), 'step')}, every link carries one chunk. In all steps together, one link carries 2 × ${k} × ${n - 1} ÷ ${n} numbers, which is less than two rows. ${k % n === 0 ? 'No link carries more than another' : 'All links carry about the same (numbers cannot be split)'}.`,
      task: 'A link sends and receives at the same time. So for each step, only the larger of the two amounts is counted.',
    }),
    server: ({ n, k }: LessonPageFacts): LessonPageText => ({
      title: 'The obvious way',
      text: `All tabs send their rows to rank 0, which adds them up and sends the sums back. This is called a parameter server. It takes only two steps, but ${n - 1} rows of ${k} numbers arrive over the link of rank 0, and ${n - 1} rows leave over it.`,
      task: 'Choose “parameter server”, take its two steps, and look at the links.',
    }),
    compare: (): LessonPageText => ({
      title: 'More tabs',
      text: 'With N tabs that hold K numbers each, the busiest link carries 2K(N−1) numbers with a parameter server and 2K(N−1)/N numbers on the ring. On the ring this is less than two rows, whatever N is.',
      task: 'Move the slider. Which method would you choose for sixteen laptops?',
    }),
    slow: (): LessonPageText => ({
      title: 'Break it: a slow link',
      text: 'One link needs several seconds for each chunk. First, only the tab at the end of this link waits. In the next step, the tab after it waits too. The stall travels one rank per step, until the whole ring runs at the pace of its slowest link.',
      task: 'Slow a link down, press “All steps”, and read the timeline.',
    }),
    drop: (): LessonPageText => ({
      title: 'Break it: somebody leaves',
      text: 'A tab is closed, or a battery is empty. The two neighbours of the gap connect, so the ring is closed again. The round starts again with the remaining numbers.',
      task: 'Take one or two steps, then remove a rank.',
    }),
    training: (): LessonPageText => ({
      title: 'This is how tabs train',
      text: 'In training, the numbers are a gradient: 11 274 numbers for the smallest model here. In every training step, the tabs do what you have just done. This takes a fraction of a second, or one to two seconds if thirty tabs share a Wi-Fi. Then all tabs update their models with the same sums. That is data-parallel training (DDP).',
    }),
  },

  own: {
    title: 'Your numbers',
    number: (place: number) => `Your number ${place}`,
    range: (most: number) => `Whole numbers from −${most} to ${most}.`,
    locked: 'You cannot change them until the next round.',
    nextRound: 'Your new numbers are used from the next round on.',
    others: 'Pick other numbers',
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
    waitsFor: (rank: number) => `This tab waits for ${formatRank(rank)}.`,
    finish: 'End the lesson',
    finishQuestion: 'End it for all?',
    finishYes: 'End',
    finishNo: 'Continue',
  },

  lastStep: {
    ready: 'Nothing has been sent yet: every row holds its rank’s own numbers.',
    alone: 'The ring closes when a second tab joins.',
    waiting: 'You joined after this round began. You will take part in the next round.',
    added: (sent: string, to: number, got: string, from: number, sum: string) =>
      `You sent ${sent} to ${formatRank(to)}. ${formatRankAtStart(from)} sent you ${got}, and you added your numbers: ${sum}.`,
    copied: (sent: string, to: number, got: string, from: number) =>
      `You sent the finished ${sent} to ${formatRank(to)}. You keep a copy of ${got} from ${formatRank(from)}.`,
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
    place: (place: number) => `Position ${place}`,
    chunk: (name: string) => `Chunk ${name}`,
    sum: 'Final sums',
    waits: 'waits for the next round',
    cell: (rank: number, place: string, text: string, ranks: readonly number[]) =>
      ranks.length === 1
        ? `${formatRankAtStart(rank)}, ${place}: ${text}, its own number.`
        : `${formatRankAtStart(rank)}, ${place}: ${text}, with numbers from ${listInWords(namesOfRanks(ranks) ?? [`ranks ${listInWords(ranks)}`])}.`,
    hint: 'Point at a number, or move to it with the arrow keys, to see the numbers in its sum.',
    some: (n: number) => `Only you and your neighbours are shown. There are ${n} ranks.`,
  },

  modes: {
    title: 'Method',
    ring: 'ring',
    'parameter-server': 'parameter server',
    note: 'If you change the method, a new round starts.',
  },

  bytes: {
    title: 'Bytes on each link',
    line: (rank: number, bytes: string, sent: string, received: string) =>
      `${formatRankAtStart(rank)}: ${bytes} on its link; ${sent} sent, ${received} received.`,
    sent: 'sent',
    received: 'received',
    busiest: (rank: number, bytes: string) => `The busiest link is that of ${formatRank(rank)}: ${bytes}.`,
    equal: (bytes: string) => `Every link carried ${bytes}.`,
    none: 'Nothing yet.',
    formula: (n: number, k: number) =>
      `Measured in this round with ${plural(n, 'rank')}, ${k} numbers each, 4 bytes per number.`,
    formulaSolo: (n: number, k: number) =>
      `Counted in this round with ${plural(n, 'rank')}, ${k} numbers each, 4 bytes per number.`,
  },

  compare: {
    title: 'The busiest link',
    tabs: 'Tabs, N',
    numbers: (k: number) => `K = ${k} numbers each`,
    ring: 'ring, 2K(N−1)/N',
    'parameter-server': 'server, 2K(N−1)',
    measured: (bytes: string) => `measured here: ${bytes}`,
    counted: (bytes: string) => `counted here: ${bytes}`,
    uneven: '(not exactly the formula: the chunks are not equally long)',
    times: (n: number) => `With the parameter server, the busiest link carries ${n} times as much.`,
  },

  stall: {
    title: 'A slow link',
    from: 'Link',
    /** The link that a rank sends on. */
    line: (from: number, to: number) => `${formatRank(from)} to ${formatRank(to)}`,
    lineOf: (rank: number) => `messages from ${formatRank(rank)}`,
    seconds: 'Delay',
    longer: (seconds: number) => `${seconds} s per message`,
    slow: 'Slow it down',
    fast: 'Remove the delay',
    is: (rank: number, seconds: number) => `Every message from ${formatRank(rank)} takes ${seconds} s longer.`,
    timeline: 'Who waited in which step',
    row: (rank: number, waits: string) => `${formatRankAtStart(rank)}: ${waits}.`,
    step: (step: number, time: string) => `step ${step} took ${time}`,
    none: 'The timeline appears after the first step.',
    note: 'Each block is one step of a rank. In a hatched block, the rank waited.',
    simulatedClock: 'Times are simulated.',
    ownClocks: 'The times of each rank are from its own clock.',
  },

  drop: {
    title: 'Remove a rank',
    who: 'Rank',
    yes: 'Remove it',
    few: 'At least two ranks must remain.',
    room: 'Close a tab, or turn off a device’s network.',
    host: 'To remove a rank, the host can remove a member, or somebody can close their tab.',
  },

  change: {
    left: (who: readonly string[], remain: number) =>
      `${listInWords(who)} left. The ring now links ${who.length === 1 ? 'its' : 'their'} neighbours, and ${plural(remain, 'row')} of numbers ${remain === 1 ? 'remains' : 'remain'}.`,
    joined: (who: readonly string[]) => `${listInWords(who)} joined.`,
    rank: (rank: number, name: string) => formatRankAtStart(rank, name),
    restarted: 'The round starts again.',
    later: 'New tabs will take part in the next round.',
  },

  solo: { ranks: 'Ranks', startRoom: 'Start a room', lessonRoom: 'Take it with a class' },
  over: {
    title: 'The lesson is over.',
    text: 'The room is still open: the host can start the lesson again or train a model with the same tabs.',
  },
  room: { again: 'Start again', join: 'Join again', lobby: 'Back to the room' },
};
