#!/usr/bin/env node
// Lets Node read TypeScript, then starts the benchmarks.
import { register } from 'tsx/esm/api';

register();
await import('./main.ts');
