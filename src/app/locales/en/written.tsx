/** What a language model writes. */
import { formatCount, plural } from '../format.ts';

export const written = {
  title: 'What it writes',
  notTested: 'It is tested on the end of the text, which it does not learn from, now and then.',
  tested: (loss: string, bigram: string, isBelow: boolean) =>
    `On the end of the text, which it does not learn from: ${loss} nats a character; a table of which character follows which (bigram) has ${bigram}${isBelow ? ' and is beaten ✓' : ''}.`,
  samples: 'As it learned',
  noSamples: 'It writes after its first step, and then ever more seldom.',
  after: (steps: number, loss: string) => `after ${plural(steps, 'step')}, loss ${loss}`,
  ask: 'Let it write on',
  prompt: 'Prompt',
  temperature: 'Temperature',
  temperatureAbout:
    'At 0 it takes the likeliest character each time, at 1 it draws as likely as it finds them. Characters that the text does not have are left out.',
  write: 'Write',
  writing: 'Writing …',
  answered: (steps: number) => `after ${plural(steps, 'step')}`,
  /** The result. */
  result: (bigram: string, steps: number, time: string) =>
    `nats a character on the end of the text, which it did not learn from (a bigram model: ${bigram}), after ${formatCount(steps)} steps in ${time}.`,
};
