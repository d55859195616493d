/** Vite replaces an import of `*.wasm?url` by the URL of the file on the page's server. */
declare module '*.wasm?url' {
  const url: string;
  export default url;
}
