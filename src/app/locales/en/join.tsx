/** Texts for joining a room, and for opening a room. */
export const joinTexts = {
  joining: 'You are joining',
  yourName: 'Your name',
  join: 'Join',
  joiningNow: 'Joining …',
  again: 'Try again',
  nameFirst: 'Enter your name first. The other members see it.',
  whatFollows: 'While this tab is open, it trains a model together with the other tabs in the room.',
  watch: 'Just watch',
  watchAbout: 'Watch the run of the other tabs. This tab then computes nothing.',
  onlyWatches: 'This tab cannot train, but it can watch the others.',
  openToWatch: 'Open and only watch',
  openToWatchAbout: 'You are the host. This tab computes nothing.',
  newTitle: 'Start a room',
  startAt: 'Start at … tabs',
  startAtNone: 'when you start it',
  startAtWrong: (max: number) => `Enter a number from 1 to ${max}.`,
  open: 'Open the room',
  opening: 'Opening …',
  back: 'Back',
  wrongLink: (problem: string) => `The job of this link is not valid; the default job is shown instead. ${problem}`,
  unknownInLink: (names: string) =>
    `This page does not know some settings of the link, and ignores them: ${names}. Check their spelling.`,
  copySetup: 'Copy this setup as a link',
  tooLongForLink: 'These layers are too long for a link. Save the job as a file instead.',
  jobFile: {
    title: 'Job file',
    open: 'Open a job file',
    hint: 'Or drop a job file here. It is JSON and may include a model. The settings above are then taken from the file.',
    opened: (file: string) => `All settings above are from ${file}.`,
    save: 'Save as a file',
  },
  origin: {
    title: 'Continue from a file',
    choose: 'Choose a file',
    hint: 'Or drop a file here: a checkpoint (.peergrad) or weights (.safetensors, a zip of TensorFlow.js, or .weights.h5 of Keras).',
    beginsWith: (file: string) => `The run begins with the weights of ${file}. Choose the model that they belong to.`,
    resumes: (file: string, name: string, step: number) =>
      `The run continues the job “${name}” from ${file}, after step ${step}.`,
    without: 'Start without this file',
  },
  checks: {
    title: 'What this tab can do',
    verdicts: { checking: '', good: 'good: ', meh: 'slower: ', bad: 'problem: ' },
    checking: (what: string) => `${what}: checking`,
    names: { secure: 'secure page', gpu: 'GPU', reach: 'reaching others' },
    secure: 'secure page',
    insecure: {
      text: 'not a secure page',
      fix: 'This page was opened over plain http from another machine; WebGPU needs https. Ask the host for the https link. Without WebGPU, training is slower but the results are the same.',
    },
    gpu: (name: string) => `GPU: ${name}`,
    unnamed: 'unnamed',
    fallback: {
      webgl: 'This tab computes with WebGL. Training is slower, but the results are the same.',
      simd: 'WebGL finds no GPU either, so this tab computes with WebAssembly. Training is slower, but the results are the same.',
      wasm: 'WebGL finds no GPU either, and WebAssembly lacks SIMD instructions. Training is much slower, but the results are the same. Use a newer browser, or just watch.',
      javascript:
        'WebGL finds no GPU either, and WebAssembly is missing or disabled. This tab computes in JavaScript, which is very slow. Enable WebAssembly, use another browser, or just watch.',
    },
    noWebGpu: {
      text: 'no WebGPU',
      needsHttps: 'WebGPU needs https (see above).',
      newer:
        'This browser does not support WebGPU. Newer versions of Chrome, Edge and Safari do, and Firefox does on some systems.',
    },
    gpuSilent: { text: 'the GPU does not respond', fix: 'Restarting the browser often helps.' },
    gpuNone: 'no GPU that WebGPU can use',
    gpuSoftware: {
      text: (name: string) => `GPU in software: ${name}`,
      fix: 'The CPU simulates this GPU, which is slower. Check that hardware acceleration is on in the browser’s settings.',
    },
    gpuBroken: 'the GPU cannot be used',
    reach: 'can reach others',
    noWebRtc: {
      text: 'no WebRTC',
      fix: 'This browser cannot connect to other browsers. If an extension has disabled WebRTC, enable it again. Otherwise use Chrome, Edge, Firefox or Safari.',
    },
    noWay: {
      text: 'no route to other machines found',
      fix: 'Joining may fail. Check that this machine is on a network. A VPN or a privacy extension may hide the machine from others.',
    },
    localNetwork: {
      text: 'the browser blocks the local network',
      denied: 'The browser blocks the local network for this page.',
      unanswered:
        'The browser may be asking, next to the address, whether this page may access the local network. Allow it. Without this access, tabs in your own network may be unable to reach this tab.',
      fix: 'Tabs in your own network may be unable to reach this tab. Click the icon in front of the address, allow access to the local network, and reload the page.',
    },
    noStart: { text: 'WebRTC did not start', fix: 'Joining may fail. Reloading the page often helps.' },
  },
};
