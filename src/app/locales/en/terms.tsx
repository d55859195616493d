/** Definitions, one sentence each; the key is the English word. */
export const terms = {
  rank: {
    word: 'rank',
    means: 'A rank is one tab of the job, with its number: 0, 1, 2, … Every rank holds a whole copy of the model.',
  },
  'world size': { word: 'world size', means: 'The world size is how many ranks train together.' },
  'all-reduce': {
    word: 'all-reduce',
    means:
      'An all-reduce adds up one list of numbers per rank and gives every rank the sum. Here the lists are gradients, cut into chunks that travel round a ring, so that no rank sends more than twice its own list.',
  },
  epoch: {
    word: 'epoch',
    means: 'An epoch is one pass over all training samples, shared out among the ranks.',
  },
  straggler: {
    word: 'straggler',
    means: 'A straggler is the slowest rank of a step; the others wait for its chunks.',
  },
  gradient: {
    word: 'gradient',
    means: 'A gradient says, for every number in the model, which way to change it so that the loss falls.',
  },
  'own loss': {
    word: 'own loss',
    means:
      'Between two exchanges a rank knows only how its own samples do: loss and samples per second are this rank’s alone.',
  },
  communication: {
    word: 'talking',
    means:
      'Talking is the time spent exchanging gradients. It is hidden while something else, like reading the next gradients off the GPU, goes on beside it.',
  },
  'state hash': {
    word: 'state hash',
    means:
      'A state hash is a fingerprint of all parameters and optimizer state: equal hashes mean that the ranks agree to the last bit.',
  },
};
