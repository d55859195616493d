/**
 * `npm run -s torch-parity`: prints the differences between this project's results and PyTorch's,
 * and exits with 1 if a difference exceeds its tolerance.
 */
import * as tf from '@tensorflow/tfjs';
import { compareWithTorch, findTorch, SUITES, type Comparison } from './parity.ts';

const torch = findTorch();
if (torch === null) {
  console.error('PyTorch is not installed. Install it to compare (Debian: apt install python3-torch).');
  process.exit(2);
}
await tf.setBackend('cpu');
const comparisons: Comparison[] = [];
for (const suite of SUITES) comparisons.push(await compareWithTorch(torch.python, suite));

if (process.argv.includes('--json')) console.log(JSON.stringify({ torch: torch.version, comparisons }));
else {
  console.log(`Compared with PyTorch ${torch.version}\n`);
  console.log('| suite | cases | largest difference | in | tolerance |\n|---|---:|---:|---|---:|');
  for (const { suite, tolerance, cases } of comparisons) {
    const worst = cases.reduce((a, b) => (b.difference > a.difference ? b : a));
    const figures = [cases.length, worst.difference.toExponential(1), worst.case, tolerance.toExponential(0)];
    console.log(`| ${[suite, ...figures].join(' | ')} |`);
  }
}
const isEqual = comparisons.every(({ cases, tolerance }) => cases.every(({ difference }) => difference <= tolerance));
process.exit(isEqual ? 0 : 1);
