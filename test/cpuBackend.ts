/**
 * Lets every test file compute with TensorFlow.js's CPU backend, whatever the files before it in
 * the same worker have registered or chosen.
 */
import * as tf from '@tensorflow/tfjs';
import { beforeAll } from 'vitest';

beforeAll(() => tf.setBackend('cpu'));
