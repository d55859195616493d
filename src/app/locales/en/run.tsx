/** Texts for a run: its numbers, ranks and result, its timeline, links and recordings. */
import type { ComponentChildren } from 'preact';
import type { CodecChoice } from '../../../protocol/runResult.ts';
import { formatBytes, formatMs, formatRank, plural, formatRankAtStart } from '../format.ts';
import { ENGLISH_NOTICE_SENTENCES } from '../../../protocol/notices.ts';
import { listInWords, capitalizeFirst } from '../../../util/text.ts';
import { CODECS } from '../../../spec/codecs.ts';
import { strategyTexts } from './job.tsx';

export const runTexts = {
  /** A note on a simulated run. */
  simulated: (ranks: number) =>
    `Simulated: these ${ranks} ranks do not exist. Times are computed from the plan of the all-reduce and a simulated network. Loss and accuracy are computed from a formula.`,
  /** Shown if the ranks cannot run the requested algorithm. */
  simulatedRing: (note: string, problem: string) => `${note} ${problem} These ranks use the ring.`,
  title: 'Training',
  ring: 'The ring',
  allReduce: 'The all-reduce',
  ranks: 'The ranks',
  curvesSection: 'Curves',
  holds: 'Chunks of every rank',
  ranksPanel: 'Ranks',
  timeline: 'Timeline',
  links: 'Links of the ring',
  startAgain: 'Start again',
  joinAgain: 'Join again',
  backToLobby: 'Back to the lobby',
  frontPage: 'The front page',
  /** The run was ended before its last step. */
  ended: (steps: number) => `Ended after ${plural(steps, 'step')}`,
  notices: ENGLISH_NOTICE_SENTENCES,
  alone: 'This tab is alone, so it has nothing to exchange.',
  aloneShown: (allReduce: ComponentChildren) => (
    <>This tab is alone, so it has nothing to exchange. With more tabs, an {allReduce} is shown here.</>
  ),
  nextRound: (allReduce: ComponentChildren) => <>The next {allReduce} will be replayed here.</>,

  /** While the job's files, or the run's state, are distributed. */
  distribution: {
    files: {
      title: 'Files',
      about: (held: number, total: number) => `This tab has ${formatBytes(held)} of ${formatBytes(total)}.`,
      all: (total: number) => `This tab has all ${formatBytes(total)} and sends them to the other tabs.`,
    },
    state: {
      title: 'Model',
      about: (held: number, total: number) =>
        `This tab has received ${formatBytes(held)} of ${formatBytes(total)} of the model. All tabs continue to train when the model has arrived.`,
      all: (total: number) =>
        `A tab that has joined receives the present model (${formatBytes(total)}). Then all tabs continue to train.`,
    },
  },

  // The strip.
  stepLabel: 'step',
  sampleRate: 'samples/s',
  ownRate: 'own samples/s',
  loss: 'loss',
  ranksUnit: (n: number): string => (n === 1 ? 'rank' : 'ranks'),
  sameState: 'same state?',
  notYet: 'not yet',
  oneCopy: 'one copy',
  allAgree: 'all agree',
  notAgreeing: (ranks: readonly number[], of: number) => {
    if (ranks.length === 0) return 'not all';
    if (ranks.length === 1) return `not ${formatRank(ranks[0]!)}`;
    return ranks.length === 2 ? `not ${listInWords(ranks)}` : `not ${ranks.length} of ${of}`;
  },
  overlapped: (share: string) => `${share} overlapped`,
  /**
   * The codec that ranks chose, and why. `Codec: int8. With fp32 (1.2 MB/s), communication added 95
   * ms to the 20 ms of computation. With int8, it should add about 24 ms.`
   */
  choice: ({ codec, ownMs, exposedMs, bytesPerMs, expectedMs, suggestion }: CodecChoice) => {
    const { title } = CODECS[codec];
    const speed = `${(bytesPerMs / 1000).toFixed(1)} MB/s`;
    const added = `${formatMs(exposedMs)} to the ${formatMs(ownMs)} of computation`;
    const reason =
      codec === 'fp32'
        ? `Communication adds ${added} (${speed}). A codec would save too little time to justify its rounding errors.`
        : `With fp32 (${speed}), communication added ${added}. With ${title}, it should add about ${formatMs(expectedMs[codec])}.`;
    const advice = suggestion
      ? ` That is still more than half of a step. ${capitalizeFirst(strategyTexts[suggestion].name)} communicates less often.`
      : '';
    return `Codec: ${title}. ${reason}${advice}`;
  },
  timeLeft: 'time left',
  done: 'done',

  // A step of each rank.
  whereStepGoes: 'Time of a step by rank',
  oneStep: 'one step',
  reading: 'reading samples',
  dataLimits: (percent: number) => `Reading samples takes ${percent} % of a step. Smaller files are faster.`,
  computation: 'computation',
  communication: 'communication',
  rest: 'other',
  longest: (straggler: ComponentChildren) => <>longest computation: the {straggler}</>,
  statisticsLater: (every: number) =>
    `Times are shown after the first exchange of statistics. Ranks exchange them every ${every} steps.`,
  laneLabel: (rank: number, computation: string, communication: string, step: string) =>
    `rank ${rank}: computation ${computation}, communication ${communication}, step ${step}`,

  // The tables.
  rank: 'rank',
  device: 'device',
  perSecond: (samples: string) => `${samples}/s`,
  impossibleSpeed: (reported: string) => `impossible speed: ${reported}`,
  /** Why ranks have their shares of a step. */
  shareReasons: {
    equal: 'Every rank computes an equal share of a step.',
    unknown: 'Shares are equal until the speeds of the ranks are measured.',
    similar: 'Shares are equal, because unequal shares would save too little time.',
    speed: 'Shares follow the measured speeds of the ranks, in samples per second.',
    overhead: 'Shares are equal, because smaller passes would cost more than unequal shares would save.',
  },
  sent: 'sent',
  received: 'received',
  link: 'link',
  state: 'state',
  remove: 'remove',
  you: '(you)',
  hasLeft: 'left',
  joinsSoon: 'joins in a moment',
  waitsForNext: 'waits for the next run',
  connecting: 'connecting …',
  isHidden: 'hidden tab',
  to: 'to',
  route: 'route',
  routes: {
    direct: 'direct',
    relayed: 'relayed',
    memory: 'same browser',
    unknown: 'up',
    server: 'server',
    'server-clear': 'server, not encrypted',
  },
  connections: (count: number) => `${count} connections`,
  roundTrip: 'round trip',
  transit: 'a chunk takes',
  rate: 'while communicating',

  // The result.
  /** Below the main metric; errors are in the unit of the target. */
  measured: {
    accuracy: (steps: number, time: string) =>
      `of the held-out samples are classified correctly, after ${plural(steps, 'step')} in ${time}.`,
    'top-3': (steps: number, time: string) =>
      `of the held-out samples have their class among the top 3 predictions, after ${plural(steps, 'step')} in ${time}.`,
    rmse: (steps: number, time: string) =>
      `is the root mean square error on held-out samples, after ${plural(steps, 'step')} in ${time}.`,
    mae: (steps: number, time: string) =>
      `is the mean absolute error on held-out samples, after ${plural(steps, 'step')} in ${time}.`,
    r2: (steps: number, time: string) =>
      `is R²: how much of the variance of held-out amounts the model explains, after ${plural(steps, 'step')} in ${time}.`,
  },
  /** Result of a learning-rate range test. */
  rateTest: {
    found: (steps: number, time: string) =>
      `is a good learning rate. The rate rose over ${plural(steps, 'step')} in ${time}, and the loss fell steepest at this rate. The test did not change the model.`,
    none: 'No rate found',
    flat: (steps: number) =>
      `No learning rate in ${plural(steps, 'step')} lowered the loss clearly. Use larger batches or more steps, and check that the labels match the data.`,
    short: (steps: number) =>
      `The test ended too early, after ${plural(steps, 'step')}, because the loss rose immediately or the time limit was reached. Allow more time or use other data.`,
  },
  useRate: (rate: string) => `Use ${rate}`,
  bestTest: 'lowest held-out loss',
  afterStep: (step: string) => `after step ${step}`,
  stepTook: 'time of a step',
  ofThatCommunication: (ms: string) => `${ms} communication`,
  sentOnAverage: 'a rank sent, on average',
  eachSent: 'each rank sent',
  nothing: 'nothing',
  theory: (bytes: string, more: string) => `${more} compared with an ideal ring (${bytes})`,
  ringWouldSend: (bytes: string) => `a ring would send ${bytes}`,
  finalState: 'final state',
  apart: (ranks: readonly number[]) => `rank ${listInWords(ranks)} divergent`,
  changeJob: 'Change the job',
  hostMayStart: 'The host may start again.',

  // The timeline.
  kinds: {
    data: 'reading samples',
    compute: 'computation',
    readback: 'reading back',
    update: 'update',
    send: 'sending',
    wait: 'waiting for another rank',
    reduce: 'reducing',
    exchange: 'exchange',
    forward: 'forward pass',
    backward: 'backward pass',
  },
  slowest: 'Slowest step',
  newest: 'Newest',
  allSteps: 'All',
  closer: 'Zoom in (+)',
  further: 'Zoom out (−)',
  step: (step: number) => `step ${step}`,
  timelineLabel: (n: number) =>
    `Timeline of the last steps of ${plural(n, 'rank')}. The arrow keys move between segments. The plus and minus keys zoom. A table of the latest step follows.`,
  timelineHelp:
    'The upper half of a lane is computation, and the lower half is communication. Point at a segment for details. Drag to move; pinch or press + and − to zoom.',
  whoDoes: (rank: number, name: string, does: string) => `${formatRankAtStart(rank, name)}: ${does}`,
  howLong: (ms: string, from: string, to: string, step: number) => `${ms}, from ${from} to ${to} of step ${step}.`,
  commands: (dispatches: number, submits: number) =>
    `The GPU received ${dispatches} dispatches in ${submits} ${submits === 1 ? 'submit' : 'submits'} in this step.`,
  aligned: (error: string, you: number | null) =>
    `Clocks are aligned at the end of a common exchange. Lanes may be shifted by up to ${error}. ` +
    (you === null
      ? 'Each lane shows what its rank recorded.'
      : 'Your lane is exact. Other ranks report their last 16 steps, with at most 24 segments per step.'),

  // Stragglers and slow links.
  who: (rank: number, name: string) => formatRank(rank, name),
  stragglersLater: (every: number) =>
    `Slow ranks and links are shown after the first exchange of statistics. Ranks exchange them every ${every} steps.`,
  nobodySlow: 'No straggler: all ranks and links have similar speed.',
  slowRank: (who: string, causes: readonly string[]) =>
    `${capitalizeFirst(who)} slows the ring: ${causes.join(', and ')}.`,
  slowComputing: (times: string) => `its computation takes ${times} times as long as the others’`,
  slowOtherwise: (times: string) =>
    `its step, without waits for other ranks, takes ${times} times as long as the others’, although its computation is not slow`,
  hiddenTab: 'its tab is hidden',
  slowLink: (from: string, to: string, ms: string, times: string, relayed: boolean) =>
    `The link from ${from} to ${to} slows the ring: a chunk takes ${ms}, which is ${times} times as long as on the other links${relayed ? '. The link uses a relay' : ''}.`,
  /** For the user of a slow rank: why its machine may be slow, and what helps. */
  slowHere: {
    label: 'Why this tab is slow',
    title: (times: string) =>
      `This tab is slow: the others are ${times} times as fast. Possible causes on this machine:`,
    reasons: {
      hidden: {
        why: 'This tab is or was hidden. Browsers slow down hidden tabs.',
        help: 'Keep it visible, for example in a window of its own.',
      },
      software: {
        why: 'The CPU simulates the GPU.',
        help: 'Turn on hardware acceleration in the browser’s settings, then restart the browser.',
      },
      insecure: {
        why: 'This page was opened over plain http, where browsers offer no WebGPU.',
        help: 'Ask the host for the https link.',
      },
      browser: {
        why: 'This browser does not support WebGPU.',
        help: 'Use a current Chrome, Edge or Safari.',
      },
      adapter: {
        why: 'WebGPU finds no GPU that it can use.',
        help: 'Turn on hardware acceleration in the browser’s settings, and update the graphics driver.',
      },
      battery: {
        why: 'This machine runs on its battery, and may save energy.',
        help: 'Plug it in.',
      },
      saver: {
        why: 'The browser draws only 30 frames per second, as in a low power mode.',
        help: 'Turn off low power mode or battery saver, or plug the machine in.',
      },
    },
    unknown: 'No usual cause was found. Other programs may keep the machine busy: close programs that you do not need.',
  },
  separated: (a: string, b: string) =>
    `${capitalizeFirst(a)} and ${b} are no longer neighbours. The link between them slowed the ring, so the ranks now have a different order in the ring.`,

  // The model as a file.
  keep: {
    title: 'Save the model',
    as: 'Save the model as',
    formats: { safetensors: 'safetensors', tfjs: 'TensorFlow.js', keras: 'Keras 3' },
    about: {
      safetensors: 'Weights by name, for Python, PyTorch and others.',
      tfjs: 'A zip of model.json and weights.bin. Unpack it for tf.loadLayersModel.',
      keras: 'A .weights.h5 file for load_weights of a model with the same layers.',
    },
    noLayers: 'This model is not made of TensorFlow.js layers, so other formats cannot describe it.',
    inStages:
      'Each tab has some layers, so the tabs write the file together after the current step. After the run, only the tab with rank 0 has the file.',
    save: 'Save model',
    saving: 'Saving …',
    which: 'Weights of',
    whichOf: { last: 'the last step', best: 'the best evaluation of this tab' },
    missedBest: (saved: number, best: number) =>
      `This tab missed the best evaluation, which was after ${plural(best, 'step')}. The saved model is the one after ${plural(saved, 'step')}.`,
    checkpoint: 'Save checkpoint',
    checkpointAbout: 'Weights, optimizer state and data position: everything needed to continue in any number of tabs',
  },

  // Exports.
  curves: 'Curves (CSV)',
  picture: 'Curves (PNG)',
  pictureTitle: 'The curves as they are shown, as a picture',
  curvesTitle: 'Loss, accuracy and world size by step, for a spreadsheet',
  trace: 'Timeline (Perfetto)',
  traceTitle: 'The last steps of all ranks as a trace: open it at ui.perfetto.dev or in chrome://tracing',

  openRecordings: 'Open recordings ↗',

  // The page of recordings.
  recording: {
    title: 'Flight recordings',
    lead: 'A recording has the last collectives, steps and chunks of one rank. Open the recordings of several ranks of a run to see who waited for whom.',
    choose: 'Choose recordings',
    drop: 'Or drop them here: peergrad-flight-rank-*.json. The files stay in this tab.',
    files: 'Recordings',
    wrong: (file: string, what: string) => `${file} cannot be shown: ${what}`,
    notJson: (message: string) => `it is not valid JSON (${message}). Download it again.`,
    notOurs: (path: string, message: string) =>
      `it is not a flight recording (${path === '' ? '' : `${path}: `}${message}).`,
    otherRun: (rank: number) =>
      `it belongs to a different generation than the open recordings, or a recording of rank ${rank} is already open. Clear the open recordings first.`,
    clear: 'Clear',
    of: (rank: number, worldSize: number, generation: number) =>
      `rank ${rank} of ${worldSize}, generation ${generation}`,
    noRound: 'This recording has no all-reduce to replay.',
    round: 'All-reduce',
    roundOf: (step: number, bucket: number) => `step ${step}, bucket ${bucket}`,
    from: 'measured by',
    timeline: 'The last steps',
    noSteps: 'No steps are recorded.',
    save: 'Save for Perfetto',
    collectives: 'Collectives, newest first',
    group: 'group',
    number: 'no.',
    call: 'call',
    algorithm: 'algorithm',
    took: 'time',
    filesMissing: (ranks: readonly number[]) =>
      `${ranks.length === 1 ? 'The recording of rank' : 'The recordings of ranks'} ${listInWords(ranks)} ${ranks.length === 1 ? 'is' : 'are'} missing. Add the missing ${ranks.length === 1 ? 'file' : 'files'}.`,
    allThere: 'Every recorded rank took part in every collective, and all collectives completed.',
    onlyOne: 'Only one recording is open, so it is unknown what the other ranks did.',
    missing: (ranks: readonly number[], call: string, waiting: readonly number[]) =>
      `${ranks.length === 1 ? 'Rank' : 'Ranks'} ${listInWords(ranks)} never entered ${call}` +
      (waiting.length === 0
        ? '.'
        : `, for which ${waiting.length === 1 ? 'rank' : 'ranks'} ${listInWords(waiting)} ${waiting.length === 1 ? 'waits' : 'wait'}.`),
    stuck: (ranks: readonly number[], call: string) =>
      `${call} did not complete on ${ranks.length === 1 ? 'rank' : 'ranks'} ${listInWords(ranks)}, although every recorded rank entered it.`,
    differs: (seq: number, calls: readonly string[]) =>
      `Ranks called different collectives as no. ${seq}: ${calls.join('; ')}.`,
    states: {
      scheduled: 'not started',
      started: 'in progress',
      completed: 'done',
      failed: 'failed',
      absent: 'missing',
      unknown: '',
    },
    shown: (n: number, of: number) => `Showing the newest ${n} of ${of}.`,
  },
};
