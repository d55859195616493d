/** A run: its numbers, ranks and result; its timeline, links and recordings. */
import type { ComponentChildren } from 'preact';
import type { BucketChoice, CodecChoice } from '../../../protocol/runResult.ts';
import { formatBytes, formatMs, list, plural, upperFirst } from '../format.ts';

export const run = {
  /** The note of a run that is not there. */
  simulated: (ranks: number) =>
    `Simulated: these ${ranks} ranks are not there. Their times follow from the ring plan on a made-up network; loss and accuracy from a formula.`,
  title: 'Training',
  ring: 'The ring',
  ranks: 'The ranks',
  curvesSection: 'Curves',
  holds: 'Who holds what',
  ranksPanel: 'Ranks',
  timeline: 'Where the time goes',
  links: 'Links of the ring',
  startAgain: 'Start again',
  joinAgain: 'Join again',
  backToLobby: 'Back to the lobby',
  alone: 'Alone: nothing to exchange.',
  aloneRing: (allReduce: ComponentChildren) => (
    <>Alone: nothing to exchange. With more tabs, an {allReduce} goes round here.</>
  ),
  nextRing: (allReduce: ComponentChildren) => <>The next {allReduce} will be replayed here.</>,

  /** While the job's files go from tab to tab. */
  spread: {
    title: 'Files',
    about: (held: number, total: number) => `${formatBytes(held)} of ${formatBytes(total)} are here.`,
    all: (total: number) => `All ${formatBytes(total)} are here, and go on to the others.`,
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
    if (ranks.length === 1) return `not rank ${ranks[0]}`;
    return ranks.length === 2 ? `not ${list(ranks)}` : `not ${ranks.length} of ${of}`;
  },
  hidden: (share: string) => `${share} hidden`,
  /**
   * `Codec: int8. With fp32 (1.2 MB/s), communication added 95 ms to 20 ms of computation; with
   * int8 it should add about 24 ms.` `Codec: fp32. Communication adds 10 ms to 200 ms of
   * computation (8.1 MB/s). A codec would save too little to be worth its rounding.`
   */
  choice: ({ codec, ownMs, exposedMs, bytesPerMs, expectedMs, suggestion }: CodecChoice) => {
    const name = codec === 'powersgd' ? 'PowerSGD' : codec;
    const speed = `${(bytesPerMs / 1000).toFixed(1)} MB/s`;
    const added = `${formatMs(exposedMs)} to ${formatMs(ownMs)} of computation`;
    const reason =
      codec === 'fp32'
        ? `Communication adds ${added} (${speed}). A codec would save too little to be worth its rounding.`
        : `With fp32 (${speed}), communication added ${added}; with ${name} it should add about ${formatMs(expectedMs[codec])}.`;
    const strategy = suggestion === 'diloco' ? 'DiLoCo' : 'Local SGD';
    const advice = suggestion ? ` That is still more than half of a step. ${strategy} communicates less often.` : '';
    return `Codec: ${name}. ${reason}${advice}`;
  },
  /**
   * `Buckets hold up to 65.5 kB: an all-reduce takes 6 ms beside its bytes, and no other size would
   * end a step much sooner.`
   */
  bucketChoice: ({ capBytes, latencyMs, expectedMs, usualMs }: BucketChoice) =>
    `Buckets hold up to ${formatBytes(capBytes)}: an all-reduce takes ${formatMs(latencyMs)} beside its bytes, and ` +
    (expectedMs === usualMs
      ? 'no other size would end a step much sooner.'
      : `so the last ends ${formatMs(expectedMs)} after the first is ready, in place of ${formatMs(usualMs)}.`),
  timeLeft: 'time left',
  done: 'done',

  // A step of each rank.
  whereStepGoes: 'Where each rank’s step goes',
  oneStep: 'one step',
  computing: 'computing',
  talking: 'talking',
  rest: 'rest',
  longest: (straggler: ComponentChildren) => <>the longest computing is the {straggler}</>,
  statisticsLater: (every: number) => `Known once ranks exchange statistics, every ${every} steps.`,
  laneLabel: (rank: number, computing: string, talking: string, step: string) =>
    `rank ${rank}: computing ${computing}, talking ${talking}, step ${step}`,

  // The tables.
  rank: 'rank',
  computesWith: 'computes with',
  sent: 'sent',
  received: 'received back',
  link: 'link',
  state: 'state',
  remove: 'remove',
  you: '(you)',
  hasLeft: 'left',
  gettingReady: 'getting ready',
  joinsSoon: 'joins in a moment',
  waitsForNext: 'waits for the next run',
  connecting: 'connecting …',
  isHidden: 'hidden tab',
  to: 'to',
  route: 'route',
  routes: { direct: 'direct', relayed: 'relayed', memory: 'same browser', unknown: 'up' },
  roundTrip: 'round trip',
  transit: 'a chunk takes',
  rate: 'while talking',

  // The result.
  /** Below the metric that is told first; errors are in the target's own unit. */
  measured: {
    accuracy: (steps: number, time: string) =>
      `of the held-out samples are classified right, after ${plural(steps, 'step')} in ${time}.`,
    'top-3': (steps: number, time: string) =>
      `of the held-out samples have their class among the three likeliest, after ${plural(steps, 'step')} in ${time}.`,
    rmse: (steps: number, time: string) =>
      `is the typical error (root mean square) on held-out samples, after ${plural(steps, 'step')} in ${time}.`,
    mae: (steps: number, time: string) =>
      `is the mean absolute error on held-out samples, after ${plural(steps, 'step')} in ${time}.`,
    r2: (steps: number, time: string) =>
      `is R², the share of the held-out amounts’ variance that is told, after ${plural(steps, 'step')} in ${time}.`,
  },
  /** Below a learning rate, or that there is none. */
  rateTest: {
    found: (steps: number, time: string) =>
      `is a learning rate to train with: there the loss fell steepest, as the rate rose through ${plural(steps, 'step')} in ${time}. The model is as it was before.`,
    none: 'No rate',
    flat: (steps: number) =>
      `makes the loss fall clearly, of those that ${plural(steps, 'step')} tried. Larger batches or more steps may show one; else look whether the labels fit the data.`,
    short: (steps: number) =>
      `can be told after ${plural(steps, 'step')}: the loss rose at once, or the time was up. Give it more time, or other data.`,
  },
  useRate: (rate: string) => `Use ${rate}`,
  bestTest: 'lowest held-out loss',
  afterStep: (step: string) => `after step ${step}`,
  stepTook: 'a step took',
  ofThatTalking: (ms: string) => `${ms} talking`,
  sentOnAverage: 'a rank sent, on average',
  eachSent: 'each rank sent',
  nothing: 'nothing',
  theory: (bytes: string, more: string) => `theory ${bytes}, ${more}`,
  ringWouldSend: (bytes: string) => `a ring would send ${bytes}`,
  finalState: 'final state',
  apart: (ranks: readonly number[]) => `rank ${list(ranks)} apart`,
  changeJob: 'Change the job',
  hostMayStart: 'The host may start again.',

  // The timeline.
  kinds: {
    compute: 'computing',
    readback: 'reading back',
    update: 'updating',
    send: 'sending',
    wait: 'waiting for the left',
    reduce: 'adding up',
    exchange: 'exchanging',
  },
  slowest: 'Slowest step',
  newest: 'Newest',
  allSteps: 'All',
  closer: 'Closer (+)',
  further: 'Further (−)',
  step: (step: number) => `step ${step}`,
  timelineLabel: (n: number) =>
    `Timeline of the last steps of ${plural(n, 'rank')}. Arrow keys go from one stretch to the next, plus and minus zoom; a table of the last step follows.`,
  timelineHelp:
    'Above, what a rank does alone; below, what it does with others. Point at a stretch; drag, pinch or + and − to look closer.',
  whoDoes: (rank: number, name: string, does: string) => `Rank ${rank}${name === '' ? '' : ` (${name})`}: ${does}`,
  howLong: (ms: string, from: string, to: string, step: number) => `${ms}, from ${from} to ${to} of step ${step}.`,
  aligned: (error: string, you: number | null) =>
    `Clocks are compared by when all end the same exchange: lanes may be shifted by up to ${error}. ` +
    (you === null
      ? 'Each lane is as its rank recorded it.'
      : 'Your lane is exact; others tell of their last 16 steps, in at most 24 stretches each.'),

  // Who is slow, and why.
  who: (rank: number, name: string) => `rank ${rank}${name === '' ? '' : ` (${name})`}`,
  stragglersLater: (every: number) =>
    `Who slows the ring is known once ranks exchange statistics, every ${every} steps.`,
  nobodySlow: 'Nobody slows the ring: all ranks and links are about as fast as each other.',
  slowRank: (who: string, causes: readonly string[]) => `${upperFirst(who)} slows the ring: ${causes.join(', ')}.`,
  slowComputing: (times: string) => `its computing takes ${times} times the others’`,
  slowOtherwise: (times: string) => `its own work takes ${times} times the others’, though its computing does not`,
  hiddenTab: 'its tab is hidden',
  slowLink: (from: string, to: string, ms: string, times: string, relayed: boolean) =>
    `The link from ${from} to ${to} slows the ring: a chunk takes ${ms} over it, ${times} times the others’${relayed ? ', by way of a relay' : ''}.`,
  parted: (a: string, b: string) =>
    `${upperFirst(a)} and ${b} are kept apart: the link between them held up the ring, so its order is another now.`,

  // The model as a file.
  keep: {
    title: 'Save the model',
    as: 'Save the model as',
    formats: { safetensors: 'safetensors', tfjs: 'TensorFlow.js', keras: 'Keras 3' },
    about: {
      safetensors: 'Weights by name, for Python, PyTorch and others.',
      tfjs: 'A zip of model.json and weights.bin: unpacked, tf.loadLayersModel takes it.',
      keras: 'A .weights.h5 file for load_weights of a model of the same layers.',
    },
    noLayers: 'This model is not made of TensorFlow.js layers, so other formats could not say what computes.',
    save: 'Save model',
    saving: 'Saving …',
    which: 'Weights of',
    whichOf: { last: 'the last step', best: 'the best test seen here' },
    missedBest: (saved: number, best: number) =>
      `This tab was not there at the best test, after ${plural(best, 'step')}: what it saved is the model after ${plural(saved, 'step')}.`,
    checkpoint: 'Save checkpoint',
    checkpointAbout: 'Weights, optimizer and where the data stands: all that it takes to go on, in any number of tabs',
  },

  // What can be taken along.
  curves: 'Curves (CSV)',
  curvesTitle: 'Loss, accuracy and world size by step, for a spreadsheet',
  trace: 'Timeline (Perfetto)',
  traceTitle: 'The last steps of all ranks as a trace: open it at ui.perfetto.dev or in chrome://tracing',

  openRecordings: 'Look at recordings ↗',

  // A recording that is looked at.
  recording: {
    title: 'Look at a flight recording',
    lead: 'A recording holds the last collectives, steps and chunks of one rank. Several ranks’ recordings of one run, laid together, show who waited for whom.',
    choose: 'Choose recordings',
    drop: 'Or drop them here: peergrad-flight-rank-*.json. They stay in this tab.',
    files: 'Recordings',
    wrong: (file: string, what: string) => `${file} cannot be shown: ${what}`,
    notJson: (message: string) => `it is no JSON (${message}). Download it again.`,
    notOurs: (path: string, message: string) =>
      `at ${path === '' ? 'its top' : path} it says something else than a flight recording does: ${message}.`,
    otherRun: (rank: number) =>
      `it is of another world than the others here, or of rank ${rank} once more: clear these first.`,
    clear: 'Clear',
    of: (rank: number, worldSize: number, generation: number) =>
      `rank ${rank} of ${worldSize}, generation ${generation}`,
    noRing: 'No step of this recording went round a ring.',
    round: 'All-reduce',
    roundOf: (step: number, bucket: number) => `step ${step}, bucket ${bucket}`,
    from: 'as timed by',
    ringLabel: (n: number) => `The ring of ${n} ranks`,
    timeline: 'The last steps',
    noSteps: 'No steps are recorded.',
    save: 'Save for Perfetto',
    collectives: 'Collectives, newest first',
    group: 'group',
    number: 'no.',
    call: 'call',
    algorithm: 'way',
    took: 'took',
    filesMissing: (ranks: readonly number[]) =>
      `Nothing is known of ${ranks.length === 1 ? 'rank' : 'ranks'} ${list(ranks)}: add ${ranks.length === 1 ? 'its recording' : 'their recordings'}.`,
    allThere: 'Every rank that is recorded here took part in every collective, and all ended.',
    onlyOne: 'One rank’s view: what others did is not known.',
    missing: (ranks: readonly number[], call: string, waiting: readonly number[]) =>
      `${ranks.length === 1 ? 'Rank' : 'Ranks'} ${list(ranks)} never entered ${call}` +
      (waiting.length === 0
        ? '.'
        : `, for which ${waiting.length === 1 ? 'rank' : 'ranks'} ${list(waiting)} ${waiting.length === 1 ? 'waits' : 'wait'}.`),
    stuck: (ranks: readonly number[], call: string) =>
      `${call} had not ended on ${ranks.length === 1 ? 'rank' : 'ranks'} ${list(ranks)}, though every rank recorded here had entered it.`,
    differs: (seq: number, calls: readonly string[]) => `Ranks do not agree what no. ${seq} is: ${calls.join('; ')}.`,
    states: {
      scheduled: 'not begun',
      started: 'under way',
      completed: 'done',
      failed: 'failed',
      absent: 'missing',
      unknown: '',
    },
    shown: (n: number, of: number) => `The newest ${n} of ${of}.`,
  },
};
