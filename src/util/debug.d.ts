/** The part of the npm package `debug` that the debug log uses. The package has no types. */
declare module 'debug' {
  interface Debugger {
    (format: string, ...values: unknown[]): void;
    readonly enabled: boolean;
  }
  const debug: ((namespace: string) => Debugger) & { enable(patterns: string): void };
  export default debug;
}
