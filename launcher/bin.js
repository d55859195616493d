#!/usr/bin/env node
// Lets Node read TypeScript, then starts the launcher.
import { register } from 'tsx/esm/api';

register();
await import('./main.ts');
