// Builds `dist/`, which is committed: readable, with the same names each time, one file for each page, one for each view that
// it loads when you open it, and one that several of them need. `--mode login` builds the sign-in page; the two share no file, so that neither waits for a third.

import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Takes the one way out of Preact that makes markup from text: the page has no use for it, and what is not there cannot be reached. */
function withoutMarkup(): Plugin {
  const parts: [string, string][] = [
    ["dom.innerHTML = newHtml.__html;", 'throw new TypeError("no markup from text");'],
    [" && newHtml.__html != dom.innerHTML", ""],
  ];
  return {
    name: "without-markup",
    transform(code, id) {
      if (!id.endsWith("preact/src/diff/index.js")) return undefined;
      for (const [from, to] of parts) {
        if (!code.includes(from)) throw new Error(`this version of Preact has no ${from}`);
        code = code.replace(from, to);
      }
      return code;
    },
  };
}

/** Loads a module and nothing beside it: what Vite would have it fetch beforehand are stylesheets, and no view has one of its own. */
function withoutPreload(): Plugin {
  return {
    name: "without-preload",
    transform(_code, id) {
      return id.endsWith("vite/preload-helper.js") ? "export const __vitePreload = (load) => load();" : undefined;
    },
  };
}

export default defineConfig(({ mode }) => ({
  publicDir: mode === "login" ? false : "public",
  plugins: [withoutMarkup(), withoutPreload()],
  resolve: {
    // Installed packages may be behind a link; their place must not be in what is built.
    preserveSymlinks: true,
    // The sources of Preact, so that what is shipped can be read.
    alias: [
      { find: /^preact$/, replacement: here("node_modules/preact/src/index.js") },
      { find: /^preact\/hooks$/, replacement: here("node_modules/preact/hooks/src/index.js") },
      { find: /^preact\/jsx-runtime$/, replacement: here("node_modules/preact/jsx-runtime/src/index.js") },
    ],
  },
  build: {
    outDir: process.env.COUNTERSIGN_WEB_DIST ?? "dist",
    emptyOutDir: mode !== "login",
    target: "es2023",
    minify: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: [mode === "login" ? here("src/login.ts") : here("src/main.tsx")],
      output: {
        comments: false,
        // By name: of two versions of the server a page and a view refuse each other, rather than take one thing for another.
        minifyInternalExports: false,
        entryFileNames: mode === "login" ? "assets/login.js" : "assets/app.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
        codeSplitting: mode === "login" ? false : {
          groups: [
            { name: "app", tags: ["$initial"] },
            // Loaded beside every view, with all that it needs.
            { name: "record", test: /view\/record\.tsx$/ },
            // What several views are made of: one request, not one for each part.
            { name: "lists", test: /(view\/(agents|cancel|listing|live-output|output|paged|screen|policy\/settings)|pure\/replay)\.tsx?$/, includeDependenciesRecursively: false },
          ],
        },
      },
    },
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
}));
